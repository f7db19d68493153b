"""Server access logging through boto3: setting it, reading the setting, and the delivered lines."""

import re
import time

from checks import all_keys, check, equal, refused, run

LINE = re.compile(
    r'^(\S+) (\S+) \[([^\]]+)\] (\S+) (\S+) (\S+) (\S+) (\S+) "([^"]*)" (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) "([^"]*)" '
    r'"([^"]*)" (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+)$'
)


def delivered(s3, bucket, prefix, wanted):
    """The fields of all delivered lines, once one of them is of the operation."""
    for _ in range(100):
        texts = [s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in all_keys(s3, bucket, prefix)]
        lines = [LINE.match(line) for text in texts for line in text.splitlines()]
        assert all(lines), "a line is not of AWS's format"
        found = [line.groups() for line in lines]
        if any(fields[6] == wanted for fields in found):
            return found
        time.sleep(0.2)
    raise AssertionError(f"no line of {wanted}")


@check
def requests_are_logged_into_a_bucket(s3, bucket):
    equal(s3.get_bucket_logging(Bucket=bucket).get("LoggingEnabled"), None, "unset")
    target = bucket[:50] + "-log"
    s3.create_bucket(Bucket=target)
    partition = {"PartitionedPrefix": {"PartitionDateSource": "EventTime"}}
    enabled = {"TargetBucket": target, "TargetPrefix": "logs/", "TargetObjectKeyFormat": partition}
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={"LoggingEnabled": enabled})
    equal(s3.get_bucket_logging(Bucket=bucket)["LoggingEnabled"], enabled, "the answer")
    s3.put_object(Bucket=bucket, Key="a b", Body=b"content")
    lines = delivered(s3, target, "logs/", "REST.PUT.OBJECT")
    put = next(fields for fields in lines if fields[6] == "REST.PUT.OBJECT")
    equal((put[0], put[1], put[4], put[7], put[9], put[12]), ("root", bucket, "root", "a%20b", "200", "7"), "fields")
    equal((put[18] != "-", put[19], put[21]), (True, "SigV4", "AuthHeader"), "signature")
    region = s3.meta.region_name
    for key in all_keys(s3, target, "logs/"):
        pattern = rf"logs/root/{region}/{bucket}/\d{{4}}/\d\d/\d\d/\d{{4}}-\d\d-\d\d-00-00-00-[0-9A-F]{{16}}"
        assert re.fullmatch(pattern, key), key
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
    equal(s3.get_bucket_logging(Bucket=bucket).get("LoggingEnabled"), None, "unset again")


@check
def a_log_needs_a_target(s3, bucket):
    status = {"LoggingEnabled": {"TargetBucket": "there-is-none", "TargetPrefix": ""}}
    refused("InvalidTargetBucketForLogging", 400, s3.put_bucket_logging, Bucket=bucket, BucketLoggingStatus=status)


run()
