"""Short-lived keys by STS: web identity tokens with unchanged SDKs, forged tokens, narrowed and revoked sessions."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from checks import MIB, check, client, content, equal, refused, run
from issuer import Issuer, Key, encoded

ISSUER = Issuer(int(os.environ["AMPHORA_ISSUER_PORT"]), os.environ["AMPHORA_TLS_CERT"], os.environ["AMPHORA_TLS_KEY"])
SECOND = Issuer(
    int(os.environ["AMPHORA_SECOND_ISSUER_PORT"]), os.environ["AMPHORA_TLS_CERT"], os.environ["AMPHORA_TLS_KEY"]
)
ENDPOINT = os.environ["AMPHORA_S3"]
ROLE = "arn:aws:iam::shop:role/web"
ONCE = Config(retries={"total_max_attempts": 1}, signature_version="s3v4", s3={"addressing_style": "path"})


def amphora(*args):
    subprocess.run([os.environ["AMPHORA_PROGRAM"], *args], check=True, capture_output=True)


def trusting(name, account="shop", subject="system:serviceaccount:shop:web", more=()):
    amphora("role", "create", name, "--account", account, "--issuer", ISSUER.url, "--subject", subject, *more)


amphora("account", "create", "shop")
trusting("web")


def sts(key=None, **credentials):
    """A client of STS: anonymous, with a key of the environment, or with these credentials."""
    if key:
        key_id, secret = os.environ[f"AMPHORA_KEY_{key}"].split(":", 1)
        credentials = {"aws_access_key_id": key_id, "aws_secret_access_key": secret}
    if not credentials:
        from botocore import UNSIGNED

        config = ONCE.merge(Config(signature_version=UNSIGNED))
        return boto3.client("sts", endpoint_url=ENDPOINT, region_name="us-east-1", config=config)
    config = Config(retries={"total_max_attempts": 1})
    return boto3.client("sts", endpoint_url=ENDPOINT, region_name="us-east-1", config=config, **credentials)


def assume(token=None, role=ROLE, **arguments):
    token = token or ISSUER.token()
    return sts().assume_role_with_web_identity(
        RoleArn=role, RoleSessionName="session-1", WebIdentityToken=token, **arguments
    )


def keys_of(answer):
    given = answer["Credentials"]
    return {
        "aws_access_key_id": given["AccessKeyId"],
        "aws_secret_access_key": given["SecretAccessKey"],
        "aws_session_token": given["SessionToken"],
    }


def s3_of(credentials, **config):
    config = ONCE.merge(Config(**config))
    return boto3.client("s3", endpoint_url=ENDPOINT, region_name="us-east-1", config=config, **credentials)


def grant(bucket, mode="rw"):
    amphora("grant", "add", bucket, "--account", "shop", "--mode", mode)


def denied(call, **arguments):
    return refused("AccessDenied", 403, call, **arguments)


def environment(token, role=ROLE):
    """What a pod has in its environment: no key, but a token and a role."""
    file = tempfile.NamedTemporaryFile("w", delete=False)
    file.write(token)
    file.close()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    kept = {name: os.environ[name] for name in ["AWS_CA_BUNDLE"] if name in os.environ}
    return {
        **clean,
        **kept,
        "AWS_WEB_IDENTITY_TOKEN_FILE": file.name,
        "AWS_ROLE_ARN": role,
        "AWS_ENDPOINT_URL_STS": ENDPOINT,
        "AWS_ENDPOINT_URL_S3": ENDPOINT,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@check
def an_unchanged_sdk_needs_a_token_file_and_no_key(s3, bucket):
    grant(bucket)
    program = f"""
import boto3
s3 = boto3.client("s3")
s3.put_object(Bucket="{bucket}", Key="k", Body=b"from a pod")
s3.upload_file(__file__, "{bucket}", "self")
print(boto3.client("sts").get_caller_identity()["Arn"])
"""
    script = tempfile.NamedTemporaryFile("w", suffix=".py")
    script.write(program)
    script.flush()
    done = subprocess.run([sys.executable, script.name], env=environment(ISSUER.token()), capture_output=True, text=True)
    equal(done.returncode, 0, done.stderr)
    equal(done.stdout.startswith("arn:aws:sts::shop:assumed-role/web/botocore-session-"), True, done.stdout)
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"from a pod", "content")


@check
def aws_cli_takes_a_role_by_its_token_file(s3, bucket):
    grant(bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"for the command line")
    aws = [os.path.join(os.path.dirname(sys.executable), "aws")]
    env = environment(ISSUER.token())
    run_aws = lambda *args: subprocess.run(aws + list(args), env=env, capture_output=True, text=True)
    copied = run_aws("s3", "cp", f"s3://{bucket}/k", "-")
    equal((copied.returncode, copied.stdout), (0, "for the command line"), copied.stderr)
    identity = run_aws("sts", "get-caller-identity", "--output", "json")
    equal(json.loads(identity.stdout)["Account"], "shop", identity.stderr)
    with open(env["AWS_WEB_IDENTITY_TOKEN_FILE"]) as file:
        token = file.read()
    taken = run_aws("sts", "assume-role-with-web-identity", "--role-arn", ROLE, "--role-session-name", "by-hand",
                    "--web-identity-token", token, "--duration-seconds", "900")
    equal(json.loads(taken.stdout)["AssumedRoleUser"]["Arn"], "arn:aws:sts::shop:assumed-role/web/by-hand", taken.stderr)


def the_go_sdk_takes_a_role_by_its_token_file(s3, bucket):
    grant(bucket)
    program = [os.environ["AMPHORA_S3CLIENTS"], "aws-role", bucket]
    done = subprocess.run(program, env=environment(ISSUER.token()), capture_output=True, text=True)
    equal((done.returncode, done.stdout[:4]), (0, "ASIA"), done.stderr)
    equal(s3.head_object(Bucket=bucket, Key="go")["ContentLength"], 200_000, "size")


if "AMPHORA_S3CLIENTS" in os.environ:
    check(the_go_sdk_takes_a_role_by_its_token_file)


def an_access_of_cosi_is_a_role_of_one_service_account(s3, bucket):
    role = os.environ["AMPHORA_COSI_ROLE"]
    session = s3_of(keys_of(assume(ISSUER.token(sub="system:serviceaccount:shop:cosi"), role=role)))
    session.put_object(Bucket="by-cosi", Key="k", Body=b"x")
    equal([found["Name"] for found in session.list_buckets()["Buckets"]], ["by-cosi"], "buckets")
    denied(session.get_object, Bucket=bucket, Key="k")
    denied(assume, token=ISSUER.token(), role=role)


if "AMPHORA_COSI_ROLE" in os.environ:
    check(an_access_of_cosi_is_a_role_of_one_service_account)


@check
def the_answer_says_who_and_how_long(s3, bucket):
    answer = assume(DurationSeconds=900)
    equal(answer["SubjectFromWebIdentityToken"], "system:serviceaccount:shop:web", "subject")
    equal((answer["Audience"], answer["Provider"]), ("amphora", ISSUER.url), "audience and provider")
    equal(answer["AssumedRoleUser"]["Arn"], "arn:aws:sts::shop:assumed-role/web/session-1", "session")
    given = answer["Credentials"]
    equal(given["AccessKeyId"][:4], "ASIA", "access key id")
    left = given["Expiration"].timestamp() - time.time()
    equal(800 < left <= 901, True, f"seconds left: {left}")
    identity = sts(**keys_of(answer)).get_caller_identity()
    equal(identity["UserId"], answer["AssumedRoleUser"]["AssumedRoleId"], "user id")
    equal(sts("ROOT").get_caller_identity()["Arn"], "arn:aws:iam::root:root", "root")
    equal(sts("BOB").get_caller_identity()["Arn"], "arn:aws:iam::bob:user/bob", "a user")
    refused("ValidationError", 400, assume, DurationSeconds=43201)


@check
def forged_and_foreign_tokens_open_nothing(s3, bucket):
    other = Key("one")
    token, now = ISSUER.token(), int(time.time())
    head, claims, signature = token.split(".")
    tampered = f"{head}.{encoded(ISSUER.claims(sub='system:serviceaccount:shop:admin'))}.{signature}"
    invalid = {
        "no signature": ISSUER.unsigned(),
        "alg None": ISSUER.unsigned("None"),
        "RS256 without a signature": f"{head}.{claims}.",
        "HMAC with the public key in PEM": ISSUER.confused(ISSUER.keys[-1].public),
        "HMAC with the public key in DER": ISSUER.confused(ISSUER.keys[-1].der),
        "another key of the same id": ISSUER.token(key=other),
        "other claims": tampered,
        "another audience": ISSUER.token(aud=["sts.amazonaws.com"]),
        "an audience that only begins alike": ISSUER.token(aud=["amphora.evil"]),
        "no audience": ISSUER.token(aud=None),
        "another issuer": ISSUER.token(iss="https://localhost:1"),
        "an issuer with a slash more": ISSUER.token(iss=ISSUER.url + "/"),
        "no issuer": ISSUER.token(iss=None),
        "no subject": ISSUER.token(sub=None),
        "no end": ISSUER.token(exp=None),
        "an end in words": ISSUER.token(exp="never"),
        "not yet": ISSUER.token(nbf=now + 600),
        "issued tomorrow": ISSUER.token(iat=now + 86400),
        "a critical extension": ISSUER.token(header={"crit": ["exp"]}),
        "a path as key id": ISSUER.token(header={"kid": "../../../../dev/null"}),
        "an address as key id": ISSUER.token(header={"kid": ISSUER.url + "/keys"}),
        "SQL as key id": ISSUER.token(header={"kid": "x' UNION SELECT 'key"}),
        "no token": "x" * 20,
        "three dots": "a.b.c.d",
    }
    for what, forged in invalid.items():
        try:
            assume(forged)
            raise AssertionError(f"{what}: it was taken")
        except ClientError as error:
            code, status = error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
            equal((code, status), ("InvalidIdentityToken", 400), f"{what}: {error}")
    refused("ExpiredTokenException", 400, assume, token=ISSUER.token(exp=now - 60))
    assume(ISSUER.token(exp=now + 60, nbf=now + 10))


@check
def an_address_in_a_token_is_never_fetched(s3, bucket):
    import socket

    trap = socket.socket()
    trap.bind(("127.0.0.1", 0))
    trap.listen()
    trap.settimeout(0.5)
    at = f"https://127.0.0.1:{trap.getsockname()[1]}"
    for forged in [
        ISSUER.token(iss=at),
        ISSUER.token(header={"jku": at + "/keys"}),
        ISSUER.token(header={"x5u": at + "/certificate"}),
        ISSUER.token(header={"kid": at + "/keys"}),
    ]:
        try:
            assume(forged)
        except ClientError:
            pass
    try:
        trap.accept()
        raise AssertionError("the server connected to an address in a token")
    except TimeoutError:
        pass


@check
def each_issuer_speaks_for_its_own_subjects_alone(s3, bucket):
    amphora("role", "create", "second", "--account", "shop", "--issuer", SECOND.url, "--subject", "repo:shop/*")
    role = "arn:aws:iam::shop:role/second"
    subject = {"sub": "repo:shop/site", "aud": ["second"]}
    answer = assume(token=SECOND.token(**subject), role=role)
    equal((answer["Provider"], answer["Audience"]), (SECOND.url, "second"), "identity")
    grant(bucket)
    session = s3_of(keys_of(answer))
    session.put_object(Bucket=bucket, Key="k", Body=b"from a pipeline")
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"from a pipeline", "content")
    # The same subject of the other issuer is another one, with whichever audience.
    denied(assume, token=ISSUER.token(sub=subject["sub"]), role=role)
    denied(assume, token=SECOND.token(sub="system:serviceaccount:shop:web", aud=["second"]), role=ROLE)
    # Each has its own audience, and its own keys: those of the two have the same id.
    for token in [
        SECOND.token(**{**subject, "aud": ["amphora"]}),
        ISSUER.token(aud=["second"]),
        SECOND.token(key=ISSUER.keys[-1], **subject),
        ISSUER.token(key=SECOND.keys[-1]),
        SECOND.token(iss=ISSUER.url, sub="system:serviceaccount:shop:web", aud=["amphora"]),
    ]:
        for taken in [role, ROLE]:
            refused("InvalidIdentityToken", 400, assume, token=token, role=taken)


@check
def only_who_is_trusted_takes_a_role(s3, bucket):
    trusting("narrow", subject="system:serviceaccount:shop:*", more=["--audience", "other"])
    for token, role in [
        (ISSUER.token(sub="system:serviceaccount:shop:web2"), ROLE),
        (ISSUER.token(sub="system:serviceaccount:SHOP:web"), ROLE),
        (ISSUER.token(), "arn:aws:iam::shop:role/narrow"),
        (ISSUER.token(), "arn:aws:iam::shop:role/absent"),
        (ISSUER.token(), "arn:aws:iam::absent:role/web"),
        (ISSUER.token(), "arn:aws:iam::root:role/web"),
    ]:
        message = denied(assume, token=token, role=role)
        equal("Not authorized to perform sts:AssumeRoleWithWebIdentity" in message, True, message)
    denied(sts("BOB").assume_role, RoleArn=ROLE, RoleSessionName="session-1")
    denied(sts("ROOT").assume_role, RoleArn=ROLE, RoleSessionName="session-1")


@check
def keys_of_a_session_need_its_token(s3, bucket):
    grant(bucket)
    mine, other = keys_of(assume()), keys_of(assume())
    s3_of(mine).put_object(Bucket=bucket, Key="k", Body=b"x")
    without = {name: value for name, value in mine.items() if name != "aws_session_token"}
    refused("InvalidAccessKeyId", 403, s3_of(without).get_object, Bucket=bucket, Key="k")
    swapped = {**mine, "aws_session_token": other["aws_session_token"]}
    refused("InvalidToken", 400, s3_of(swapped).get_object, Bucket=bucket, Key="k")
    changed = {**mine, "aws_session_token": "A" + mine["aws_session_token"][1:][:-4] + "AAAA"}
    refused("InvalidToken", 400, s3_of(changed).get_object, Bucket=bucket, Key="k")
    key_id, secret = os.environ["AMPHORA_KEY_BOB"].split(":", 1)
    foreign = {"aws_access_key_id": key_id, "aws_secret_access_key": secret, "aws_session_token": mine["aws_session_token"]}
    refused("InvalidToken", 400, s3_of(foreign).get_object, Bucket=bucket, Key="k")
    guessed = {**mine, "aws_secret_access_key": other["aws_secret_access_key"]}
    refused("SignatureDoesNotMatch", 403, s3_of(guessed).get_object, Bucket=bucket, Key="k")
    refused("InvalidClientTokenId", 403, sts(**swapped).get_caller_identity)
    refused("InvalidClientTokenId", 403, sts(**without).get_caller_identity)
    refused("SignatureDoesNotMatch", 403, sts(**guessed).get_caller_identity)
    equal(s3_of(mine).get_object(Bucket=bucket, Key="k")["Body"].read(), b"x", "the session itself is unharmed")


@check
def sessions_read_write_and_upload_as_keys_do(s3, bucket):
    grant(bucket)
    session = s3_of(keys_of(assume()))
    data = content(11 * MIB)
    upload = session.create_multipart_upload(Bucket=bucket, Key="large")["UploadId"]
    parts = []
    for number, part in enumerate([data[: 6 * MIB], data[6 * MIB :]], 1):
        tag = session.upload_part(Bucket=bucket, Key="large", UploadId=upload, PartNumber=number, Body=part)["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    session.complete_multipart_upload(Bucket=bucket, Key="large", UploadId=upload, MultipartUpload={"Parts": parts})
    equal(session.get_object(Bucket=bucket, Key="large")["Body"].read(), data, "content")
    session.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "large"})
    listed = [found["Key"] for found in session.list_objects_v2(Bucket=bucket)["Contents"]]
    equal(listed, ["copy", "large"], "keys")
    deleted = session.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "copy"}, {"Key": "large"}]})
    equal(len(deleted["Deleted"]), 2, str(deleted))
    equal([found["Name"] for found in session.list_buckets()["Buckets"]].count(bucket), 1, "buckets")
    denied(session.create_bucket, Bucket=bucket + "-more")


def fetch(url, method="GET", data=None, headers=None):
    request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@check
def presigned_urls_of_a_session_carry_its_token(s3, bucket):
    grant(bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"presigned")
    for version in ["s3v4", "s3"]:
        session = s3_of(keys_of(assume()), signature_version=version)
        url = session.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60)
        equal("security-token" in url.lower(), True, url)
        equal(fetch(url), (200, b"presigned"), version)
        name = "X-Amz-Security-Token" if version == "s3v4" else "x-amz-security-token"
        start, rest = url.split(name + "=", 1)
        stripped = start.rstrip("&?") + ("&" + rest.split("&", 1)[1] if "&" in rest else "")
        equal(fetch(stripped)[0], 403, f"{version}: without its token")
        other = keys_of(assume())["aws_session_token"]
        swapped = f"{start}{name}={other}" + ("&" + rest.split("&", 1)[1] if "&" in rest else "")
        status, body = fetch(swapped)
        equal((status, b"InvalidToken" in body), (400, True), f"{version}: with another token: {body}")
        put = session.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": version}, ExpiresIn=60)
        # Version 2 covers the type, and this library adds one unless it is given.
        equal(fetch(put, "PUT", b"put", {"Content-Type": ""})[0], 200, f"{version}: put")


@check
def forms_of_a_session_carry_its_token(s3, bucket):
    from uuid import uuid4

    grant(bucket)
    form = s3_of(keys_of(assume())).generate_presigned_post(bucket, "k", ExpiresIn=60)
    equal("x-amz-security-token" in form["fields"], True, str(form["fields"].keys()))

    def post(fields):
        boundary = uuid4().hex
        head = "".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                       for name, value in fields.items())
        file = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nform\r\n--{boundary}--\r\n'
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return fetch(form["url"], "POST", (head + file).encode(), kind)

    fields = form["fields"]
    without = {name: value for name, value in fields.items() if name != "x-amz-security-token"}
    equal(post(without)[0], 403, "without its token")
    swapped = {**fields, "x-amz-security-token": keys_of(assume())["aws_session_token"]}
    equal(b"InvalidToken" in post(swapped)[1], True, "with another token")
    equal(post(fields)[0], 204, "with its token")
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"form", "content")


def narrowed(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


@check
def a_policy_narrows_a_session_and_never_widens_it(s3, bucket):
    grant(bucket)
    for key in ["in/a", "in/b", "out/a"]:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    arn = f"arn:aws:s3:::{bucket}"
    policy = narrowed(
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:DeleteObject"], "Resource": f"{arn}/in/*"},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": f"{arn}/in/b"},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn, "Condition": {"StringLike": {"s3:prefix": "in/*"}}},
    )
    answer = assume(Policy=policy)
    equal(0 < answer["PackedPolicySize"] < 100, True, str(answer["PackedPolicySize"]))
    session = s3_of(keys_of(answer))
    equal(session.get_object(Bucket=bucket, Key="in/a")["Body"].read(), b"in/a", "content")
    equal(session.list_objects_v2(Bucket=bucket, Prefix="in/")["KeyCount"], 2, "keys")
    for call, arguments in [
        (session.get_object, {"Key": "out/a"}),
        (session.put_object, {"Key": "in/new", "Body": b"x"}),
        (session.list_objects_v2, {}),
        (session.list_object_versions, {}),
        (session.get_object_tagging, {"Key": "in/a"}),
        (session.copy_object, {"Key": "in/c", "CopySource": {"Bucket": bucket, "Key": "in/a"}}),
        (session.create_multipart_upload, {"Key": "in/new"}),
        (session.get_bucket_location, {}),
        (session.delete_object, {"Key": "in/b"}),
    ]:
        denied(call, Bucket=bucket, **arguments)
    denied(session.list_buckets)
    deleted = session.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in ["in/a", "in/b", "out/a"]]})
    equal([found["Key"] for found in deleted["Deleted"]], ["in/a"], str(deleted))
    equal(sorted(found["Code"] for found in deleted["Errors"]), ["AccessDenied"] * 2, str(deleted))

    everything = narrowed({"Effect": "Allow", "Action": "*", "Resource": "*"})
    wide = s3_of(keys_of(assume(Policy=everything)))
    equal(wide.get_object(Bucket=bucket, Key="in/b")["Body"].read(), b"in/b", "content")
    equal(bucket in [found["Name"] for found in wide.list_buckets()["Buckets"]], True, "buckets")
    amphora("grant", "add", bucket, "--account", "shop", "--mode", "ro")
    denied(wide.put_object, Bucket=bucket, Key="in/new", Body=b"x")
    denied(wide.get_bucket_policy, Bucket=bucket)


@check
def policies_that_are_none_are_refused(s3, bucket):
    def code(policy):
        try:
            assume(Policy=policy)
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "taken"

    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    equal(code(narrowed(statement)), "taken", "a good one")
    equal(code("{}"), "MalformedPolicyDocument", "no statement")
    equal(code("x"), "MalformedPolicyDocument", "no JSON")
    equal(code(narrowed({**statement, "Principal": "*"})), "MalformedPolicyDocument", "a principal")
    equal(code(narrowed({**statement, "Resource": "arn:aws:s3:::" + "x" * 2048})), "ValidationError", "too long")
    wide = narrowed({**statement, "Resource": "arn:aws:s3:::a/é"}).encode().decode("unicode_escape")
    long = wide.replace("é", "\U0001f600" * 1500)
    equal(code(long), "PackedPolicyTooLarge", "too large")


@check
def a_bucket_policy_sees_the_role_and_the_session(s3, bucket):
    grant(bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    first, second = (
        s3_of(keys_of(sts().assume_role_with_web_identity(
            RoleArn=ROLE, RoleSessionName=name, WebIdentityToken=ISSUER.token())))
        for name in ["first", "second"]
    )

    def deny(condition):
        statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*",
                     "Condition": condition}
        s3.put_bucket_policy(Bucket=bucket, Policy=narrowed(statement))

    deny({"StringLike": {"aws:userid": "*:first"}})
    denied(first.get_object, Bucket=bucket, Key="k")
    second.get_object(Bucket=bucket, Key="k")
    deny({"ArnEquals": {"aws:PrincipalArn": ROLE}})
    denied(second.get_object, Bucket=bucket, Key="k")
    s3.get_object(Bucket=bucket, Key="k")
    deny({"StringEquals": {"aws:PrincipalType": "AssumedRole"}})
    denied(first.get_object, Bucket=bucket, Key="k")
    deny({"Null": {"aws:username": "true"}, "StringNotEquals": {"aws:PrincipalType": "Account"}})
    denied(first.get_object, Bucket=bucket, Key="k")


@check
def accounts_take_the_roles_that_trust_them(s3, bucket):
    grant(bucket)
    amphora("role", "create", "reader", "--account", "shop", "--trust-account", "bob")
    role = "arn:aws:iam::shop:role/reader"
    answer = sts("BOB").assume_role(RoleArn=role, RoleSessionName="as-reader", DurationSeconds=900)
    session = s3_of(keys_of(answer))
    session.put_object(Bucket=bucket, Key="k", Body=b"x")
    denied(client("BOB").get_object, Bucket=bucket, Key="k")
    denied(sts(**keys_of(answer)).assume_role, RoleArn=role, RoleSessionName="again")
    denied(sts("ROOT").assume_role, RoleArn=role, RoleSessionName="root")
    denied(assume, role=role)
    policy = narrowed({"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"})
    narrow = s3_of(keys_of(sts("BOB").assume_role(RoleArn=role, RoleSessionName="narrow", Policy=policy)))
    narrow.get_object(Bucket=bucket, Key="k")
    denied(narrow.put_object, Bucket=bucket, Key="k", Body=b"y")


@check
def what_is_revoked_ends_with_the_next_request(s3, bucket):
    grant(bucket)
    trusting("brief")
    role = "arn:aws:iam::shop:role/brief"
    session = s3_of(keys_of(assume(role=role)))
    session.put_object(Bucket=bucket, Key="k", Body=b"x")
    amphora("grant", "rm", bucket, "--account", "shop")
    denied(session.get_object, Bucket=bucket, Key="k")
    grant(bucket)
    session.get_object(Bucket=bucket, Key="k")
    amphora("role", "rm", "brief", "--account", "shop")
    refused("InvalidToken", 400, session.get_object, Bucket=bucket, Key="k")
    trusting("brief")
    refused("InvalidToken", 400, session.get_object, Bucket=bucket, Key="k")
    s3_of(keys_of(assume(role=role))).get_object(Bucket=bucket, Key="k")


@check
def odd_requests_are_answered_in_the_form_of_sts(s3, bucket):
    def ask(body, kind="application/x-www-form-urlencoded"):
        return fetch(ENDPOINT + "/", "POST", body, {"Content-Type": kind})

    table = [
        (b"", 400, b"MissingParameter"),
        (b"Version=2011-06-15", 400, b"MissingAction"),
        (b"Action=GetSessionToken&Version=2011-06-15", 400, b"InvalidAction"),
        (b"Action=AssumeRole&Version=2010-05-08", 400, b"InvalidAction"),
        (b"Action=GetCallerIdentity&Version=2011-06-15", 403, b"MissingAuthenticationToken"),
        (b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15", 400, b"ValidationError"),
        (b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=%ff", 400, b"ValidationError"),
        (b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15&ProviderId=graph.facebook.com", 400, b"ValidationError"),
        (b"Action=AssumeRole&Action=GetCallerIdentity&Version=2011-06-15", 400, b"ValidationError"),
        (b"Action=<x>&Version=2011-06-15", 400, b"&lt;x&gt;"),
        (b"a=" + b"x" * 70_000, 413, b"RequestEntityTooLarge"),
        (b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=ab&RoleArn=" + ROLE.encode()
         + b"&WebIdentityToken=" + b"x" * 30_000, 400, b"InvalidIdentityToken"),
    ]
    for body, status, code in table:
        found, answer = ask(body)
        equal((found, code in answer, b"<RequestId>" in answer), (status, True, True), f"{body[:80]}: {answer}")
        equal(answer.startswith(b"<ErrorResponse"), True, str(answer))
    equal(ask(b"<a/>", "application/xml")[0], 405, "a POST of something else is one of S3")


@check
def new_keys_of_the_issuer_are_found_and_old_ones_forgotten(s3, bucket):
    old = ISSUER.keys[-1]
    assume()
    ISSUER.keys = [Key("two", "EC")]
    before = len(ISSUER.requests)
    deadline = time.time() + 90
    while True:
        try:
            assume()
            break
        except ClientError as error:
            equal(error.response["Error"]["Code"], "InvalidIdentityToken", str(error))
            equal(time.time() < deadline, True, "the new key was not found")
            time.sleep(0.5)
    asked = len(ISSUER.requests) - before
    equal(asked <= 8, True, f"{asked} requests to the issuer")
    refused("InvalidIdentityToken", 400, assume, token=ISSUER.token(key=old))


run()
