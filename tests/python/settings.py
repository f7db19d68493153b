"""Bucket settings through boto3: tags, policy, public access, CORS, lifecycle, ownership, ACL, object lock."""

import datetime
import json
import urllib.error
import urllib.request

from botocore import UNSIGNED

from checks import check, client_of, equal, refused, run


@check
def tags_of_a_bucket(s3, bucket):
    refused("NoSuchTagSet", 404, s3.get_bucket_tagging, Bucket=bucket)
    tags = [{"Key": "team", "Value": "storage"}, {"Key": "ü", "Value": ""}]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    found = s3.get_bucket_tagging(Bucket=bucket)["TagSet"]
    equal(sorted(found, key=str), sorted(tags, key=str), "tags")
    twice = [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]
    refused("InvalidTag", 400, s3.put_bucket_tagging, Bucket=bucket, Tagging={"TagSet": twice})
    s3.delete_bucket_tagging(Bucket=bucket)
    refused("NoSuchTagSet", 404, s3.get_bucket_tagging, Bucket=bucket)


@check
def tags_of_an_object(s3, bucket):
    tags = lambda: s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="from=the%20put")
    equal(tags(), [{"Key": "from", "Value": "the put"}], "tags of the put")
    equal(s3.get_object(Bucket=bucket, Key="k")["TagCount"], 1, "count")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/k")
    equal(s3.get_object_tagging(Bucket=bucket, Key="copy")["TagSet"], tags(), "tags of a copy")
    etag = s3.head_object(Bucket=bucket, Key="k")["ETag"]
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
    equal((tags(), s3.head_object(Bucket=bucket, Key="k")["ETag"]), ([{"Key": "a", "Value": "1"}], etag), "replaced")
    many = [{"Key": f"{number}", "Value": ""} for number in range(11)]
    refused("InvalidTag", 400, s3.put_object_tagging, Bucket=bucket, Key="k", Tagging={"TagSet": many})
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    equal(tags(), [], "tags once deleted")
    refused("NoSuchKey", 404, s3.get_object_tagging, Bucket=bucket, Key="absent")


def public(bucket):
    """A policy that allows everyone to read, and nobody to write."""
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [everybody]})


@check
def a_policy_makes_a_bucket_public(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"open")
    nobody = client_of("", "", signature_version=UNSIGNED)
    refused("AccessDenied", 403, nobody.get_object, Bucket=bucket, Key="k")
    refused("NoSuchBucketPolicy", 404, s3.get_bucket_policy, Bucket=bucket)
    # A new bucket blocks public access, also by policies.
    refused("AccessDenied", 403, s3.put_bucket_policy, Bucket=bucket, Policy=public(bucket))
    s3.delete_public_access_block(Bucket=bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=public(bucket))
    equal(json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]), json.loads(public(bucket)), "policy")
    equal(s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"], True, "status")
    equal(nobody.get_object(Bucket=bucket, Key="k")["Body"].read(), b"open", "content")
    refused("AccessDenied", 403, nobody.put_object, Bucket=bucket, Key="k", Body=b"no")
    refused("AccessDenied", 403, nobody.list_objects_v2, Bucket=bucket)
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"RestrictPublicBuckets": True})
    refused("AccessDenied", 403, nobody.get_object, Bucket=bucket, Key="k")
    s3.delete_public_access_block(Bucket=bucket)
    s3.delete_bucket_policy(Bucket=bucket)
    refused("AccessDenied", 403, nobody.get_object, Bucket=bucket, Key="k")
    for wrong in ["", "{}", "not json", json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Maybe"}]})]:
        refused("MalformedPolicy", 400, s3.put_bucket_policy, Bucket=bucket, Policy=wrong)


@check
def a_deny_overrides_the_grant(s3, bucket):
    s3.put_object(Bucket=bucket, Key="kept/k", Body=b"x")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": f"arn:aws:s3:::{bucket}/kept/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [deny]}))
    refused("AccessDenied", 403, s3.delete_object, Bucket=bucket, Key="kept/k")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "kept/k"}, {"Key": "other"}]})
    equal([entry["Code"] for entry in answer["Errors"]], ["AccessDenied"], "errors of a batch")
    s3.delete_bucket_policy(Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="kept/k")


def ask(s3, bucket, method, origin, **headers):
    """Sends a browser's CORS request; returns status and headers of the answer."""
    headers = {"Origin": origin, **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = urllib.request.Request(f"{s3.meta.endpoint_url}/{bucket}/k", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


@check
def a_browser_is_allowed_what_the_rules_allow(s3, bucket):
    refused("NoSuchCORSConfiguration", 404, s3.get_bucket_cors, Bucket=bucket)
    rule = {"AllowedMethods": ["PUT"], "AllowedOrigins": ["https://*.example.com"], "AllowedHeaders": ["x-amz-*"],
            "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    equal(s3.get_bucket_cors(Bucket=bucket)["CORSRules"], [rule], "rules")
    wanted = {"Access_Control_Request_Method": "PUT", "Access_Control_Request_Headers": "x-amz-date"}
    status, headers = ask(s3, bucket, "OPTIONS", "https://a.example.com", **wanted)
    equal((status, headers["Access-Control-Allow-Origin"]), (200, "https://a.example.com"), "preflight")
    equal(headers["Access-Control-Max-Age"], "60", "age")
    equal(ask(s3, bucket, "OPTIONS", "https://other.org", **wanted)[0], 403, "another origin")
    wanted["Access_Control_Request_Method"] = "DELETE"
    equal(ask(s3, bucket, "OPTIONS", "https://a.example.com", **wanted)[0], 403, "another method")
    s3.delete_bucket_cors(Bucket=bucket)
    refused("NoSuchCORSConfiguration", 404, s3.get_bucket_cors, Bucket=bucket)


@check
def lifecycle_rules_are_stored_unchanged(s3, bucket):
    refused("NoSuchLifecycleConfiguration", 404, s3.get_bucket_lifecycle_configuration, Bucket=bucket)
    rules = [
        {"ID": "logs", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 7}},
        {"ID": "parts", "Status": "Enabled", "Filter": {"Prefix": ""},
         "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2}},
        {"ID": "old", "Status": "Disabled", "Filter": {"Tag": {"Key": "a", "Value": "b"}},
         "NoncurrentVersionExpiration": {"NoncurrentDays": 3}},
    ]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    equal(s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"], rules, "rules")
    head = s3.put_object(Bucket=bucket, Key="logs/1", Body=b"x")
    equal('rule-id="logs"' in head.get("Expiration", ""), True, f"expiration of {head}")
    double = [rules[0], rules[0]]
    refused("InvalidArgument", 400, s3.put_bucket_lifecycle_configuration, Bucket=bucket,
            LifecycleConfiguration={"Rules": double})
    s3.delete_bucket_lifecycle(Bucket=bucket)
    refused("NoSuchLifecycleConfiguration", 404, s3.get_bucket_lifecycle_configuration, Bucket=bucket)


@check
def the_owner_owns_everything(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    controls = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    equal(controls, [{"ObjectOwnership": "BucketOwnerEnforced"}], "ownership")
    for acl in (s3.get_bucket_acl(Bucket=bucket), s3.get_object_acl(Bucket=bucket, Key="k")):
        equal([grant["Permission"] for grant in acl["Grants"]], ["FULL_CONTROL"], "grants")
        equal(acl["Grants"][0]["Grantee"]["ID"], acl["Owner"]["ID"], "grantee")
    mine = {"Bucket": bucket, "Key": "k", "ACL": "private"}
    s3.put_object(**mine, Body=b"x")
    s3.copy_object(**{**mine, "Key": "copy"}, CopySource=f"{bucket}/k")
    upload = s3.create_multipart_upload(**mine)["UploadId"]
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    s3.put_object_acl(**mine)
    s3.put_bucket_acl(Bucket=bucket, ACL="private")
    for acl in ["bucket-owner-full-control", "bucket-owner-read"]:
        s3.put_object(**{**mine, "ACL": acl}, Body=b"x")
    refused("AccessControlListNotSupported", 400, s3.copy_object, **{**mine, "ACL": "public-read"},
            CopySource=f"{bucket}/copy")
    refused("AccessControlListNotSupported", 400, s3.create_multipart_upload, **{**mine, "ACL": "authenticated-read"})
    refused("AccessControlListNotSupported", 400, s3.put_object, Bucket=bucket, Key="k", GrantRead='id="x"')
    equal([grant["Permission"] for grant in s3.get_object_acl(Bucket=bucket, Key="k")["Grants"]], ["FULL_CONTROL"], "ACL")
    for call, more in [(s3.put_bucket_acl, {}), (s3.put_object_acl, {"Key": "k"})]:
        refused("AccessControlListNotSupported", 400, call, Bucket=bucket, ACL="public-read", **more)


@check
def acls_allow_the_accounts_that_they_name(s3, bucket):
    stranger = client_of("nobody", "nothing", signature_version=UNSIGNED)
    s3.delete_public_access_block(Bucket=bucket)
    s3.put_bucket_ownership_controls(
        Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]})
    s3.put_object(Bucket=bucket, Key="open", Body=b"x", ACL="public-read")
    s3.put_object(Bucket=bucket, Key="shut", Body=b"x")
    equal(stranger.get_object(Bucket=bucket, Key="open")["Body"].read(), b"x", "public")
    refused("AccessDenied", 403, stranger.get_object, Bucket=bucket, Key="shut")
    refused("AccessDenied", 403, stranger.list_objects_v2, Bucket=bucket)
    acl = s3.get_object_acl(Bucket=bucket, Key="open")
    everybody = {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}
    equal(acl["Grants"][1], {"Grantee": everybody, "Permission": "READ"}, "grant")
    s3.put_object_acl(Bucket=bucket, Key="shut", AccessControlPolicy={"Grants": acl["Grants"], "Owner": acl["Owner"]})
    equal(s3.get_object_acl(Bucket=bucket, Key="shut")["Grants"], acl["Grants"], "a document")
    s3.put_object_acl(Bucket=bucket, Key="open", GrantRead=f'id="{acl["Owner"]["ID"]}"')
    refused("AccessDenied", 403, stranger.get_object, Bucket=bucket, Key="open")
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    equal(len(stranger.list_objects_v2(Bucket=bucket)["Contents"]), 2, "keys")
    enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    refused("InvalidBucketAclWithObjectOwnership", 400, s3.put_bucket_ownership_controls, Bucket=bucket,
            OwnershipControls=enforced)
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"BlockPublicAcls": True})
    for call, more in [(s3.put_bucket_acl, {}), (s3.put_object_acl, {"Key": "shut"})]:
        refused("AccessDenied", 403, call, Bucket=bucket, ACL="public-read", **more)
    s3.put_bucket_acl(Bucket=bucket, ACL="private")
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=enforced)
    refused("AccessDenied", 403, stranger.get_object, Bucket=bucket, Key="shut")


@check
def locked_versions_stay(s3, _):
    bucket = "locked-versions"
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    equal(s3.get_bucket_versioning(Bucket=bucket)["Status"], "Enabled", "versioning")
    until = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(hours=1)
    version = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["VersionId"]
    which = {"Bucket": bucket, "Key": "k", "VersionId": version}
    s3.put_object_retention(Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until}, **which)
    equal(s3.get_object_retention(**which)["Retention"], {"Mode": "GOVERNANCE", "RetainUntilDate": until}, "retention")
    refused("AccessDenied", 403, s3.delete_object, **which)
    s3.put_object_legal_hold(LegalHold={"Status": "ON"}, **which)
    refused("AccessDenied", 403, s3.delete_object, BypassGovernanceRetention=True, **which)
    s3.put_object_legal_hold(LegalHold={"Status": "OFF"}, **which)
    marker = s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
    equal(s3.get_object(**which)["Body"].read(), b"x", "the version under the marker")
    s3.delete_object(Bucket=bucket, Key="k", VersionId=marker)
    s3.delete_object(BypassGovernanceRetention=True, **which)
    refused("InvalidBucketState", 409, s3.put_bucket_versioning, Bucket=bucket,
            VersioningConfiguration={"Status": "Suspended"})
    s3.delete_bucket(Bucket=bucket)


run()
