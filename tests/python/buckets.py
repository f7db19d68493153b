"""Buckets, access and refusals through boto3. The environment has a key of an account with each grant."""

import datetime
import pathlib
import urllib.error
import urllib.request

from botocore.exceptions import ClientError

from checks import MIB, all_keys, check, client, client_of, content, equal, refused, run

# Every unsupported bucket and object operation, with the arguments that boto3 requires.
NOT_OFFERED = {
    "put_bucket_request_payment": {"RequestPaymentConfiguration": {"Payer": "Requester"}},
    "put_bucket_accelerate_configuration": {"AccelerateConfiguration": {"Status": "Enabled"}},
    "put_bucket_encryption": {
        "ServerSideEncryptionConfiguration": {
            "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
        },
    },
    "select_object_content": {
        "Key": "k", "Expression": "SELECT * FROM S3Object", "ExpressionType": "SQL",
        "InputSerialization": {"CSV": {}}, "OutputSerialization": {"CSV": {}},
    },
}


@check
def buckets_are_created_and_deleted(s3, bucket):
    name = f"{bucket}-x"
    refused("404", 404, s3.head_bucket, Bucket=name)
    s3.create_bucket(Bucket=name)
    s3.create_bucket(Bucket=name)  # In us-east-1, creating one's own bucket again succeeds.
    head = s3.head_bucket(Bucket=name)
    equal(head["BucketRegion"], "us-east-1", "region")
    equal(s3.get_bucket_location(Bucket=name)["LocationConstraint"], None, "location")
    listed = {one["Name"]: one["CreationDate"] for one in s3.list_buckets()["Buckets"]}
    age = datetime.datetime.now(datetime.timezone.utc) - listed[name]
    equal(abs(age) < datetime.timedelta(minutes=5), True, "CreationDate")
    s3.put_object(Bucket=name, Key="k", Body=b"")
    refused("BucketNotEmpty", 409, s3.delete_bucket, Bucket=name)
    s3.delete_object(Bucket=name, Key="k")
    s3.delete_bucket(Bucket=name)
    refused("NoSuchBucket", 404, s3.delete_bucket, Bucket=name)
    equal(name in [one["Name"] for one in s3.list_buckets()["Buckets"]], False, "still listed")


@check
def buckets_are_listed_in_pages(s3, bucket):
    names = [f"page-{number:02}" for number in range(7)]
    for name in names:
        s3.create_bucket(Bucket=name)
    pages = s3.get_paginator("list_buckets").paginate(Prefix="page-", PaginationConfig={"PageSize": 3})
    found = [[one["Name"] for one in page["Buckets"]] for page in pages]
    equal([len(page) for page in found], [3, 3, 1], "pages")
    equal(sum(found, []), names, "buckets")


@check
def refusals_carry_the_code_of_s3(s3, bucket):
    for name in ["Upper-Case", "under_score", "ab", "x" * 64, "-dash", "dot..dot", "192.168.1.1"]:
        refused("InvalidBucketName", 400, s3.create_bucket, Bucket=name)
    refused("NoSuchBucket", 404, s3.get_object, Bucket="no-such-bucket-here", Key="k")
    refused("NoSuchBucket", 404, s3.put_object, Bucket="no-such-bucket-here", Key="k", Body=b"x")
    refused("NoSuchKey", 404, s3.get_object, Bucket=bucket, Key="absent")
    refused("404", 404, s3.head_object, Bucket=bucket, Key="absent")
    refused("NoSuchVersion", 404, s3.get_object, Bucket=bucket, Key="absent", VersionId="0123456789abcdef")
    refused("InvalidLocationConstraint", 400, s3.create_bucket, Bucket="elsewhere-bucket",
            CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    refused("InvalidStorageClass", 400, s3.put_object, Bucket=bucket, Key="k", Body=b"", StorageClass="GLACIER")
    refused("AccessControlListNotSupported", 400, s3.put_object, Bucket=bucket, Key="k", Body=b"", ACL="public-read")
    refused("NotImplemented", 501, s3.put_object, Bucket=bucket, Key="k", Body=b"", ServerSideEncryption="AES256")
    equal(all_keys(s3, bucket), [], "keys")


@check
def unknown_keys_are_refused(s3, bucket):
    refused("InvalidAccessKeyId", 403, client("STALE").list_buckets)
    refused("InvalidAccessKeyId", 403, client_of("AKIAFOREIGN", "secret-of-nobody").list_buckets)
    root = s3.meta.client if hasattr(s3.meta, "client") else s3
    key_id = root._request_signer._credentials.access_key
    refused("SignatureDoesNotMatch", 403, client_of(key_id, "not-the-secret-of-root").list_buckets)


@check
def unsupported_features_are_refused_by_name(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for method, arguments in NOT_OFFERED.items():
        message = refused("NotImplemented", 501, getattr(s3, method), Bucket=bucket, **arguments)
        operation = s3.meta.method_to_api_mapping[method]
        equal(operation.lower() in message.lower(), True, f"{operation} in {message!r}")
    refused("InvalidObjectState", 403, s3.restore_object, Bucket=bucket, Key="k", RestoreRequest={"Days": 1})
    equal(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"x", "content")


@check
def unset_settings_are_answered_as_by_aws(s3, bucket):
    def answer_of(method, **arguments):
        answer = getattr(s3, method)(Bucket=bucket, **arguments)
        return {name: value for name, value in answer.items() if name != "ResponseMetadata"}

    absent = {
        "get_bucket_encryption": "ServerSideEncryptionConfigurationNotFoundError",
        "get_bucket_replication": "ReplicationConfigurationNotFoundError",
        "get_bucket_website": "NoSuchWebsiteConfiguration",
    }
    for method, code in absent.items():
        refused(code, 404, getattr(s3, method), Bucket=bucket)
    for method in ["get_bucket_logging", "get_bucket_notification_configuration", "get_bucket_accelerate_configuration"]:
        equal(answer_of(method), {}, method)
    for kind in ["analytics", "intelligent_tiering", "inventory", "metrics"]:
        equal(answer_of(f"list_bucket_{kind}_configurations"), {"IsTruncated": False}, kind)
        refused("NoSuchConfiguration", 404, getattr(s3, f"get_bucket_{kind}_configuration"), Bucket=bucket, Id="one")
        getattr(s3, f"delete_bucket_{kind}_configuration")(Bucket=bucket, Id="one")
    equal(answer_of("get_bucket_request_payment"), {"Payer": "BucketOwner"}, "payer")
    for method in ["delete_bucket_encryption", "delete_bucket_replication", "delete_bucket_website"]:
        equal(getattr(s3, method)(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"], 204, method)
    s3.put_bucket_request_payment(Bucket=bucket, RequestPaymentConfiguration={"Payer": "BucketOwner"})
    s3.put_bucket_accelerate_configuration(Bucket=bucket, AccelerateConfiguration={"Status": "Suspended"})
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})


@check
def every_operation_of_botocore_is_in_the_table(s3, bucket):
    page = pathlib.Path(__file__).parents[2] / "docs" / "s3.md"
    table = page.read_text().split("## Every operation")[1]
    rows = {line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")}
    old = {"GetBucketLifecycle", "GetBucketNotification", "PutBucketLifecycle", "PutBucketNotification"}
    equal(set(s3.meta.service_model.operation_names) - rows - old, set(), "operations without a row")


@check
def presigned_urls_of_version_2_open_one_request(s3, bucket):
    for style in ["path", "virtual"]:
        old = client(signature_version="s3", s3={"addressing_style": style})
        named = {"Bucket": bucket, "Key": "a b+ü"}
        typed = {**named, "ContentType": "text/plain", "Metadata": {"a": "b"}}
        if style == "virtual" and "amazonaws" not in old.generate_presigned_url("get_object", Params=named):
            continue  # The endpoint is an IP address, below which there are no host names.
        put = old.generate_presigned_url("put_object", Params=typed, ExpiresIn=60)
        equal("AWSAccessKeyId=" in put, True, f"version 2: {put}")
        data = content(MIB)
        equal(http("PUT", put, data, headers={"Content-Type": "text/plain"})[0], 200, "status of the put")
        head = s3.head_object(**named)
        equal((head["ContentType"], head["Metadata"]), ("text/plain", {"a": "b"}), "what the URL says")
        shown = {**named, "ResponseContentDisposition": 'attachment; filename="x y"'}
        get = old.generate_presigned_url("get_object", Params=shown, ExpiresIn=60)
        equal(http("GET", get), (200, data), "answer of the get")
        equal(http("GET", get, headers={"Range": "bytes=1-3"}), (206, data[1:4]), "answer with a range")
        begun = old.generate_presigned_url("create_multipart_upload", Params=named, ExpiresIn=60, HttpMethod="POST")
        equal(http("POST", begun)[0], 200, "status of an upload that begins")
        for wrong in [get.replace("a%20b", "a%20c"), get.replace("filename", "filenamf"), get + "&versionId=null"]:
            status, text = http("GET", wrong)
            equal((status, b"SignatureDoesNotMatch" in text), (403, True), f"a changed URL: {text}")
        status, text = http("PUT", get, b"other")
        equal((status, b"SignatureDoesNotMatch" in text), (403, True), f"another method: {text}")
        late = old.generate_presigned_url("get_object", Params=named, ExpiresIn=-5)
        status, text = http("GET", late)
        equal((status, b"Request has expired" in text), (403, True), f"an expired URL: {text}")


@check
def presigned_urls_allow_one_request(s3, bucket):
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "a b+ü"}, ExpiresIn=60)
    data = content(MIB)
    equal(http("PUT", put, data)[0], 200, "status of the put")
    get = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b+ü"}, ExpiresIn=60)
    equal(http("GET", get), (200, data), "answer of the get")
    equal(http("GET", get, headers={"Range": "bytes=1-3"}), (206, data[1:4]), "answer with a range")
    for wrong in [put.replace("%2B", "%2C"), put.replace("X-Amz-Expires=60", "X-Amz-Expires=61")]:
        status, text = http("PUT", wrong, b"other")
        equal((status, b"SignatureDoesNotMatch" in text), (403, True), f"a changed URL: {text}")
    status, text = http("GET", put)
    equal((status, b"SignatureDoesNotMatch" in text), (403, True), f"another method: {text}")
    equal(s3.get_object(Bucket=bucket, Key="a b+ü")["Body"].read(), data, "content")
    equal(http("GET", f"{s3.meta.endpoint_url}/{bucket}/a")[0], 403, "a request without a signature")


def http(method, url, data=None, headers=None):
    """Sends an HTTP request without the SDK."""
    request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def may(call, **arguments):
    try:
        call(**arguments)
        return True
    except ClientError as error:
        code = error.response["Error"]["Code"]
        equal(code in ("AccessDenied", "403"), True, f"refusal of {call.__name__}: {error}")
        equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 403, "status")
        return False


@check
def grants_are_honoured(s3, _):
    bucket = "granted"  # Created, and granted to the accounts, by the test that runs this script.
    s3.put_object(Bucket=bucket, Key="seen", Body=b"x")
    for key, reads, writes in [("RO", True, False), ("RW", True, True), ("WO", False, True), ("NONE", False, False)]:
        theirs = client(key)
        listed = [one["Name"] for one in theirs.list_buckets()["Buckets"]]
        equal(listed, [bucket] if reads or writes else [], f"{key}: buckets")
        table = [
            ("head_bucket", {}, reads or writes),
            ("list_objects_v2", {}, reads),
            ("list_objects", {}, reads),
            ("list_object_versions", {}, reads),
            ("get_object", {"Key": "seen"}, reads),
            ("head_object", {"Key": "seen"}, reads),
            ("put_object", {"Key": f"by-{key}", "Body": b"y"}, writes),
            ("copy_object", {"Key": f"copy-{key}", "CopySource": f"{bucket}/seen"}, reads and writes),
            ("delete_object", {"Key": f"by-{key}"}, writes),
            ("delete_objects", {"Delete": {"Objects": [{"Key": f"copy-{key}"}]}}, writes),
            ("create_multipart_upload", {"Key": f"up-{key}"}, writes),
            ("delete_bucket", {}, False),
        ]
        for method, arguments, allowed in table:
            found = may(getattr(theirs, method), Bucket=bucket, **arguments)
            equal(found, allowed, f"{key}: {method}")
        equal(may(theirs.create_bucket, Bucket=f"by-{key.lower()}"), False, f"{key}: create_bucket")
        equal(may(theirs.get_object, Bucket="grants-are-honoured", Key="k"), False, f"{key}: another bucket")
        equal(may(theirs.copy_object, Bucket=bucket, Key="stolen", CopySource="grants-are-honoured/k"), False,
              f"{key}: a copy out of another bucket")
    equal(all_keys(s3, bucket), ["seen"], "keys")


run()
