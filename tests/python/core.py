"""The gRPC C core as a client: one call on each Unix socket that the arguments name, as SOCKET=/service/Method pairs.

A call is made with an empty message, and with the authority that the library chooses by itself. Ends with status 1 unless
every call is answered OK.
"""

import sys

import grpc

TIMEOUT_SECONDS = 20


def code_of(socket, method):
    """The status code of a call."""
    with grpc.insecure_channel("unix:" + socket) as channel:
        call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        try:
            # Twice on one connection: the second call refers to the authority by its index in HPACK's table.
            for _ in range(2):
                call(b"", timeout=TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return "OK"


failed = 0
for argument in sys.argv[1:]:
    at, _, to = argument.partition("=")
    code = code_of(at, to)
    if code != "OK":
        failed += 1
        print(f"{at} {to}: {code}")
print(f"{len(sys.argv) - 1 - failed} of {len(sys.argv) - 1} checks passed")
sys.exit(failed > 0)
