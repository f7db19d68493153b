// aws-sdk-js v3 with its default checksums against one server.
//
// The environment has the server's address, AMPHORA_S3, and its root key, AMPHORA_KEY_ROOT (`id:secret`). No request is
// retried: one that fails once is a finding. All checks run, also after one has failed.
"use strict";

const assert = require("node:assert/strict");
const { createHash } = require("node:crypto");
const { Readable } = require("node:stream");
const s3 = require("@aws-sdk/client-s3");
const { Upload } = require("@aws-sdk/lib-storage");

const MIB = 1024 * 1024;
const [accessKeyId, secretAccessKey] = process.env.AMPHORA_KEY_ROOT.split(":");
const client = new s3.S3Client({
  endpoint: process.env.AMPHORA_S3,
  region: "us-east-1",
  credentials: { accessKeyId, secretAccessKey },
  forcePathStyle: true,
  maxAttempts: 1,
});

const send = (name, input) => client.send(new s3[`${name}Command`](input));
const etagOf = (data) => `"${createHash("md5").update(data).digest("hex")}"`;

/** Bytes that no block of them repeats. */
function content(size, seed) {
  const blocks = [];
  let block = Buffer.from(String(seed));
  for (let length = 0; length < size; length += block.length) {
    block = createHash("sha512").update(block).digest();
    blocks.push(block);
  }
  return Buffer.concat(blocks).subarray(0, size);
}

async function read(input) {
  const answer = await send("GetObject", input);
  return Buffer.from(await answer.Body.transformToByteArray());
}

async function refused(call, status, name) {
  const error = await call.then(() => assert.fail(`was not refused with ${name}`), (error) => error);
  assert.deepEqual([error.$metadata?.httpStatusCode, error.name], [status, name], String(error));
}

/** Each gets a bucket of its own. */
const checks = {
  async "objects round trip"(Bucket) {
    for (const size of [0, 1, 4096, 4097, 128 * 1024, 128 * 1024 + 1, 5 * MIB]) {
      const [Key, Body] = [`dir/size ${size} é`, content(size, size)];
      const put = await send("PutObject", { Bucket, Key, Body, ContentType: "text/x", Metadata: { origin: "js" } });
      assert.equal(put.ETag, etagOf(Body));
      assert(Body.equals(await read({ Bucket, Key })), `content of ${size} bytes`);
      const head = await send("HeadObject", { Bucket, Key });
      assert.deepEqual([head.ContentLength, head.ContentType, head.Metadata], [size, "text/x", { origin: "js" }]);
    }
    await refused(send("GetObject", { Bucket, Key: "absent" }), 404, "NoSuchKey");
  },

  async "checksums"(Bucket) {
    const Body = content(70000, "sums");
    for (const ChecksumAlgorithm of ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]) {
      await send("PutObject", { Bucket, Key: ChecksumAlgorithm, Body, ChecksumAlgorithm });
      const head = await send("HeadObject", { Bucket, Key: ChecksumAlgorithm, ChecksumMode: "ENABLED" });
      assert.ok(head[`Checksum${ChecksumAlgorithm}`], ChecksumAlgorithm);
      // The SDK checks what it reads against the checksum that the answer carries.
      assert(Body.equals(await read({ Bucket, Key: ChecksumAlgorithm })), ChecksumAlgorithm);
    }
    await refused(send("PutObject", { Bucket, Key: "wrong", Body, ChecksumCRC32: "AAAAAA==" }), 400, "BadDigest");
    await refused(send("HeadObject", { Bucket, Key: "wrong" }), 404, "NotFound");
  },

  async "conditional puts"(Bucket) {
    const put = (Key, condition) => send("PutObject", { Bucket, Key, Body: "body", ...condition });
    const first = await put("k", { IfNoneMatch: "*" });
    await refused(put("k", { IfNoneMatch: "*" }), 412, "PreconditionFailed");
    await put("k", { IfMatch: first.ETag });
    await refused(put("k", { IfMatch: etagOf("") }), 412, "PreconditionFailed");
    await refused(put("absent", { IfMatch: etagOf("") }), 404, "NoSuchKey");
  },

  async "streams of unknown length go up in parts"(Bucket) {
    const whole = content(17 * MIB, "stream");
    const Body = Readable.from((function* pieces() {
      for (let at = 0; at < whole.length; at += 300000) yield whole.subarray(at, at + 300000);
    })());
    await new Upload({ client, partSize: 5 * MIB, queueSize: 3, params: { Bucket, Key: "k", Body } }).done();
    assert(whole.equals(await read({ Bucket, Key: "k" })), "content");
    assert.match((await send("HeadObject", { Bucket, Key: "k" })).ETag, /-4"$/);
  },

  async "multipart uploads"(Bucket) {
    const Key = "k";
    const { UploadId } = await send("CreateMultipartUpload", { Bucket, Key });
    const bodies = [content(5 * MIB, 1), content(100, 2)];
    const Parts = [];
    for (const [index, Body] of bodies.entries()) {
      const part = await send("UploadPart", { Bucket, Key, UploadId, PartNumber: index + 1, Body });
      Parts.push({ PartNumber: index + 1, ETag: part.ETag, ChecksumCRC32: part.ChecksumCRC32 });
    }
    await send("CompleteMultipartUpload", { Bucket, Key, UploadId, MultipartUpload: { Parts }, IfNoneMatch: "*" });
    assert(Buffer.concat(bodies).equals(await read({ Bucket, Key })), "content");
    const other = await send("CreateMultipartUpload", { Bucket, Key });
    await send("AbortMultipartUpload", { Bucket, Key, UploadId: other.UploadId });
    await refused(send("ListParts", { Bucket, Key, UploadId: other.UploadId }), 404, "NoSuchUpload");
  },

  async "ranges"(Bucket) {
    const Body = content(MIB, "ranges");
    await send("PutObject", { Bucket, Key: "k", Body });
    for (const [Range, first, end] of [["0-0", 0, 1], ["100-199", 100, 200], ["-7", MIB - 7], ["1000-", 1000]]) {
      assert(Body.subarray(first, end).equals(await read({ Bucket, Key: "k", Range: `bytes=${Range}` })), Range);
    }
    await refused(send("GetObject", { Bucket, Key: "k", Range: `bytes=${MIB}-` }), 416, "InvalidRange");
  },

  async "listings"(Bucket) {
    const keys = Array.from({ length: 25 }, (_, number) => `d${number % 3}/k ${number}`).sort();
    await Promise.all(keys.map((Key) => send("PutObject", { Bucket, Key, Body: Key })));
    const found = [];
    for await (const page of s3.paginateListObjectsV2({ client, pageSize: 7 }, { Bucket })) {
      found.push(...page.Contents.map((entry) => entry.Key));
    }
    assert.deepEqual(found, keys);
    const folders = await send("ListObjectsV2", { Bucket, Delimiter: "/" });
    assert.deepEqual(folders.CommonPrefixes.map((entry) => entry.Prefix), ["d0/", "d1/", "d2/"]);
  },

  async "deletions"(Bucket) {
    const Objects = Array.from({ length: 20 }, (_, number) => ({ Key: `k${number}&<>` }));
    await Promise.all(Objects.map(({ Key }) => send("PutObject", { Bucket, Key, Body: "x" })));
    const answer = await send("DeleteObjects", { Bucket, Delete: { Objects } });
    assert.deepEqual([answer.Deleted.length, answer.Errors ?? []], [20, []]);
    const { ETag } = await send("PutObject", { Bucket, Key: "k", Body: "x" });
    await refused(send("DeleteObject", { Bucket, Key: "k", IfMatch: etagOf("") }), 412, "PreconditionFailed");
    await send("DeleteObject", { Bucket, Key: "k", IfMatch: ETag });
    await send("DeleteBucket", { Bucket });
    await refused(send("HeadBucket", { Bucket }), 404, "NotFound");
  },

  async "copies"(Bucket) {
    const Body = content(300000, "copy");
    await send("PutObject", { Bucket, Key: "a b+ü", Body });
    const CopySource = `${Bucket}/${encodeURIComponent("a b+ü")}`;
    const copied = await send("CopyObject", {
      Bucket, Key: "copy", CopySource, MetadataDirective: "REPLACE", Metadata: { by: "copy" },
    });
    assert.equal(copied.CopyObjectResult.ETag, etagOf(Body));
    assert(Body.equals(await read({ Bucket, Key: "copy" })), "content");
    await refused(send("CopyObject", { Bucket, Key: "no", CopySource, CopySourceIfMatch: etagOf("") }), 412,
      "PreconditionFailed");
  },

  async "tags"(Bucket) {
    const Key = "k";
    const tags = async () => (await send("GetObjectTagging", { Bucket, Key })).TagSet;
    await send("PutObject", { Bucket, Key, Body: "x", Tagging: "from=the%20put" });
    assert.deepEqual(await tags(), [{ Key: "from", Value: "the put" }]);
    const TagSet = [{ Key: "a", Value: "1" }, { Key: "b c", Value: "ü" }];
    await send("PutObjectTagging", { Bucket, Key, Tagging: { TagSet } });
    assert.deepEqual(await tags(), TagSet);
    await send("DeleteObjectTagging", { Bucket, Key });
    assert.deepEqual(await tags(), []);
    await refused(send("GetBucketTagging", { Bucket }), 404, "NoSuchTagSet");
    await send("PutBucketTagging", { Bucket, Tagging: { TagSet: [{ Key: "team", Value: "storage" }] } });
    assert.deepEqual((await send("GetBucketTagging", { Bucket })).TagSet, [{ Key: "team", Value: "storage" }]);
  },

  async "versions"(Bucket) {
    await send("PutBucketVersioning", { Bucket, VersioningConfiguration: { Status: "Enabled" } });
    const old = await send("PutObject", { Bucket, Key: "k", Body: "old" });
    await send("PutObject", { Bucket, Key: "k", Body: "new" });
    const marker = await send("DeleteObject", { Bucket, Key: "k" });
    assert.equal(marker.DeleteMarker, true);
    assert.equal(String(await read({ Bucket, Key: "k", VersionId: old.VersionId })), "old");
    const listed = await send("ListObjectVersions", { Bucket });
    assert.deepEqual([listed.Versions.length, listed.DeleteMarkers.length], [2, 1]);
    await send("DeleteObject", { Bucket, Key: "k", VersionId: marker.VersionId });
    assert.equal(String(await read({ Bucket, Key: "k" })), "new");
  },
};

async function main() {
  let passed = 0;
  for (const [name, check] of Object.entries(checks)) {
    const start = performance.now();
    const bucket = name.replaceAll(" ", "-");
    try {
      await send("CreateBucket", { Bucket: bucket });
      await check(bucket);
      passed += 1;
      console.log(`ok ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    } catch (error) {
      console.log(`FAIL ${name}: ${error.stack}`);
    }
  }
  const count = Object.keys(checks).length;
  console.log(`${passed} of ${count} checks passed`);
  process.exitCode = passed === count ? 0 : 1;
}

main();
