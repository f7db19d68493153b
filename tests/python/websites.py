"""Static websites: set through boto3, read as a browser does."""

import json
import os
import urllib.error
import urllib.request

from checks import check, equal, refused, run


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def browse(bucket, path, method="GET"):
    """Status, headers and body of a page of the website of a bucket."""
    request = urllib.request.Request(os.environ["AMPHORA_WEBSITE"] + path, method=method, headers={"Host": bucket})
    try:
        with urllib.request.build_opener(Stay).open(request) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def opened(s3, bucket):
    allow = {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:ListBucket"],
             "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))


@check
def a_website_is_set_read_served_and_removed(s3, bucket):
    refused("NoSuchWebsiteConfiguration", 404, s3.get_bucket_website, Bucket=bucket)
    opened(s3, bucket)
    for key in ["index.html", "docs/index.html", "error.html"]:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), ContentType="text/html")
    rule = {"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "docs/", "HttpRedirectCode": "302"}}
    site = {"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"}, "RoutingRules": [rule]}
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=site)
    found = s3.get_bucket_website(Bucket=bucket)
    equal({name: found[name] for name in site}, site, "the answer")
    equal((browse(bucket, "/")[0], browse(bucket, "/")[2]), (200, b"index.html"), "index")
    status, headers, _ = browse(bucket, "/docs")
    equal((status, headers["Location"]), (302, "/docs/"), "folder")
    equal(browse(bucket, "/docs/")[2], b"docs/index.html", "index of a folder")
    equal((browse(bucket, "/none")[0], browse(bucket, "/none")[2]), (404, b"error.html"), "error document")
    status, headers, _ = browse(bucket, "/old/a")
    equal((status, headers["Location"]), (302, f"http://{bucket}/docs/a"), "rule")
    equal(browse(bucket, "/", method="DELETE")[0], 405, "method")
    s3.put_object(Bucket=bucket, Key="moved", WebsiteRedirectLocation="https://example.org/x")
    equal(s3.head_object(Bucket=bucket, Key="moved")["WebsiteRedirectLocation"], "https://example.org/x", "kept")
    status, headers, _ = browse(bucket, "/moved")
    equal((status, headers["Location"]), (301, "https://example.org/x"), "redirect of an object")
    s3.delete_bucket_website(Bucket=bucket)
    equal(browse(bucket, "/")[0], 404, "no site")


@check
def a_redirect_of_everything(s3, bucket):
    site = {"RedirectAllRequestsTo": {"HostName": "www.example.org", "Protocol": "https"}}
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=site)
    equal(s3.get_bucket_website(Bucket=bucket)["RedirectAllRequestsTo"], site["RedirectAllRequestsTo"], "the answer")
    status, headers, _ = browse(bucket, "/a/b?c=d")
    equal((status, headers["Location"]), (301, "https://www.example.org/a/b?c=d"), "location")


run()
