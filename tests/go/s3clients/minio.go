package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"
)

type minioChecks struct{ client *minio.Client }

func minioSuite() suite {
	address := ok(url.Parse(endpoint()))
	id, secret := rootKey()
	client := ok(minio.New(address.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(id, secret, ""),
		Secure:       address.Scheme == "https",
		Region:       "us-east-1",
		BucketLookup: minio.BucketLookupPath,
		MaxRetries:   1,
		// Signed chunks with a trailing checksum, which minio-go sends to servers that accept them.
		TrailingHeaders: true,
	}))
	m := minioChecks{client}
	return suite{
		makeBucket: func(ctx context.Context, bucket string) error {
			return client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{})
		},
		checks: []check{
			{"objects round trip", m.roundTrip},
			{"bodies of unknown length go up in parts", m.streams},
			{"ranges and seeks", m.ranges},
			{"conditional puts", m.conditionalPuts},
			{"conditional reads", m.conditionalReads},
			{"listings", m.listings},
			{"deletions at once", m.deletions},
			{"copies and compositions", m.copies},
			{"tags of objects", m.objectTags},
			{"tags of buckets", m.bucketTags},
			{"versions", m.versions},
			{"unfinished uploads", m.unfinished},
			{"presigned urls", m.presigned},
			{"post policies", m.postPolicy},
		},
	}
}

func (m minioChecks) put(ctx context.Context, bucket, key string, data []byte) minio.UploadInfo {
	return ok(m.client.PutObject(ctx, bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{}))
}

func (m minioChecks) read(ctx context.Context, bucket, key string, options minio.GetObjectOptions) []byte {
	object := ok(m.client.GetObject(ctx, bucket, key, options))
	defer object.Close()
	return ok(io.ReadAll(object))
}

// minioRefused ends the check unless the call was refused with this code and status.
func minioRefused(what string, err error, status int, code string) {
	if err == nil {
		panic(what + ": was not refused")
	}
	answer := minio.ToErrorResponse(err)
	equal(what, fmt.Sprint(answer.StatusCode, " ", answer.Code), fmt.Sprint(status, " ", code))
}

func (m minioChecks) roundTrip(ctx context.Context, bucket string) {
	for _, size := range []int{0, 1, 4096, 4097, 128 << 10, 128<<10 + 1, 5 * mib} {
		key := fmt.Sprintf("dir/size %d", size)
		data := content(size, key)
		put := ok(m.client.PutObject(ctx, bucket, key, bytes.NewReader(data), int64(size), minio.PutObjectOptions{
			ContentType: "text/x", UserMetadata: map[string]string{"Origin": "go"}, SendContentMd5: size%2 == 0,
		}))
		equal("ETag", put.ETag, md5Hex(data))
		same(key, m.read(ctx, bucket, key, minio.GetObjectOptions{}), data)
		head := ok(m.client.StatObject(ctx, bucket, key, minio.StatObjectOptions{}))
		equal("size", head.Size, int64(size))
		equal("type", head.ContentType, "text/x")
		equal("metadata", head.UserMetadata["Origin"], "go")
	}
	_, err := m.client.StatObject(ctx, bucket, "absent", minio.StatObjectOptions{})
	minioRefused("absent", err, 404, "NoSuchKey")
}

func (m minioChecks) streams(ctx context.Context, bucket string) {
	data := content(17*mib+3, "stream")
	// The reader has no length and cannot seek: the library cuts the content into parts, each sent as signed chunks.
	body := io.MultiReader(bytes.NewReader(data))
	put := ok(m.client.PutObject(ctx, bucket, "k", body, -1, minio.PutObjectOptions{PartSize: 5 * mib}))
	equal("parts in the ETag", put.ETag[strings.Index(put.ETag, "-"):], "-4")
	same("content", m.read(ctx, bucket, "k", minio.GetObjectOptions{}), data)
	info := ok(m.client.PutObject(ctx, bucket, "sum", bytes.NewReader(data), int64(len(data)),
		minio.PutObjectOptions{PartSize: 6 * mib, Checksum: minio.ChecksumSHA256}))
	equal("checksum of parts", strings.HasSuffix(info.ChecksumSHA256, "-3"), true)
}

func (m minioChecks) ranges(ctx context.Context, bucket string) {
	data := content(mib, "ranges")
	m.put(ctx, bucket, "k", data)
	for _, one := range [][2]int64{{0, 0}, {5, 9}, {mib - 1, mib - 1}, {1000, mib - 1}} {
		var options minio.GetObjectOptions
		must(options.SetRange(one[0], one[1]))
		same(fmt.Sprint("range ", one), m.read(ctx, bucket, "k", options), data[one[0]:one[1]+1])
	}
	object := ok(m.client.GetObject(ctx, bucket, "k", minio.GetObjectOptions{}))
	defer object.Close()
	part := make([]byte, 100)
	ok(object.ReadAt(part, mib-100))
	same("ReadAt", part, data[mib-100:])
	ok(object.Seek(-50, io.SeekEnd))
	same("after Seek", ok(io.ReadAll(object)), data[mib-50:])
}

func (m minioChecks) conditionalPuts(ctx context.Context, bucket string) {
	put := func(key string, set func(*minio.PutObjectOptions)) (minio.UploadInfo, error) {
		var options minio.PutObjectOptions
		set(&options)
		return m.client.PutObject(ctx, bucket, key, strings.NewReader("body"), 4, options)
	}
	create := func(o *minio.PutObjectOptions) { o.SetMatchETagExcept("*") }
	first := ok(put("k", create))
	_, err := put("k", create)
	minioRefused("created twice", err, 412, "PreconditionFailed")
	swap := func(o *minio.PutObjectOptions) { o.SetMatchETag(first.ETag) }
	ok(put("k", swap))
	other := func(o *minio.PutObjectOptions) { o.SetMatchETag(md5Hex(nil)) }
	_, err = put("k", other)
	minioRefused("another ETag", err, 412, "PreconditionFailed")
	_, err = put("absent", other)
	minioRefused("nothing to match", err, 404, "NoSuchKey")
}

func (m minioChecks) conditionalReads(ctx context.Context, bucket string) {
	put := m.put(ctx, bucket, "k", []byte("body"))
	stat := func(set func(*minio.StatObjectOptions) error) error {
		var options minio.StatObjectOptions
		must(set(&options))
		_, err := m.client.StatObject(ctx, bucket, "k", options)
		return err
	}
	must(stat(func(o *minio.StatObjectOptions) error { return o.SetMatchETag(put.ETag) }))
	err := stat(func(o *minio.StatObjectOptions) error { return o.SetMatchETag(md5Hex(nil)) })
	equal("another ETag", minio.ToErrorResponse(err).StatusCode, 412)
	err = stat(func(o *minio.StatObjectOptions) error { return o.SetMatchETagExcept(put.ETag) })
	equal("not modified", minio.ToErrorResponse(err).StatusCode, 304)
	must(stat(func(o *minio.StatObjectOptions) error { return o.SetModified(time.Now().Add(-time.Hour)) }))
}

func (m minioChecks) keys(ctx context.Context, bucket string, options minio.ListObjectsOptions) string {
	var found []string
	for object := range m.client.ListObjects(ctx, bucket, options) {
		must(object.Err)
		found = append(found, object.Key)
	}
	return strings.Join(found, " ")
}

func (m minioChecks) listings(ctx context.Context, bucket string) {
	for _, key := range []string{"a", "d/1", "d/2", "d/e/3", "é", "z"} {
		m.put(ctx, bucket, key, []byte(key))
	}
	list := func(options minio.ListObjectsOptions) string { return m.keys(ctx, bucket, options) }
	equal("all", list(minio.ListObjectsOptions{Recursive: true, MaxKeys: 2}), "a d/1 d/2 d/e/3 z é")
	equal("folders", list(minio.ListObjectsOptions{}), "a z é d/")
	equal("below", list(minio.ListObjectsOptions{Prefix: "d/"}), "d/1 d/2 d/e/")
	equal("after", list(minio.ListObjectsOptions{Recursive: true, StartAfter: "d/2"}), "d/e/3 z é")
	equal("version 1", list(minio.ListObjectsOptions{Recursive: true, UseV1: true, MaxKeys: 4}), "a d/1 d/2 d/e/3 z é")
}

func (m minioChecks) deletions(ctx context.Context, bucket string) {
	doomed := make(chan minio.ObjectInfo, 20)
	for number := range 20 {
		key := fmt.Sprintf("k%02d&<>", number)
		m.put(ctx, bucket, key, []byte("x"))
		doomed <- minio.ObjectInfo{Key: key}
	}
	close(doomed)
	m.put(ctx, bucket, "stays", nil)
	for failure := range m.client.RemoveObjects(ctx, bucket, doomed, minio.RemoveObjectsOptions{}) {
		panic(failure.Err)
	}
	equal("left", m.keys(ctx, bucket, minio.ListObjectsOptions{Recursive: true}), "stays")
	must(m.client.RemoveObject(ctx, bucket, "stays", minio.RemoveObjectOptions{}))
	must(m.client.RemoveObject(ctx, bucket, "stays", minio.RemoveObjectOptions{}))
	must(m.client.RemoveBucket(ctx, bucket))
}

func (m minioChecks) copies(ctx context.Context, bucket string) {
	first, second := content(5*mib, "first"), content(100, "second")
	m.put(ctx, bucket, "a b+ü", first)
	m.put(ctx, bucket, "second", second)
	ok(m.client.CopyObject(ctx, minio.CopyDestOptions{
		Bucket: bucket, Object: "copy", ReplaceMetadata: true, UserMetadata: map[string]string{"By": "copy"},
	}, minio.CopySrcOptions{Bucket: bucket, Object: "a b+ü"}))
	same("copy", m.read(ctx, bucket, "copy", minio.GetObjectOptions{}), first)
	head := ok(m.client.StatObject(ctx, bucket, "copy", minio.StatObjectOptions{}))
	equal("metadata", head.UserMetadata["By"], "copy")
	source := minio.CopySrcOptions{Bucket: bucket, Object: "second", MatchETag: md5Hex(nil)}
	_, err := m.client.CopyObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "no"}, source)
	minioRefused("another ETag", err, 412, "PreconditionFailed")
	ok(m.client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "both"},
		minio.CopySrcOptions{Bucket: bucket, Object: "a b+ü"}, minio.CopySrcOptions{Bucket: bucket, Object: "second"}))
	same("both", m.read(ctx, bucket, "both", minio.GetObjectOptions{}), append(first, second...))
}

func (m minioChecks) objectTags(ctx context.Context, bucket string) {
	ok(m.client.PutObject(ctx, bucket, "k", strings.NewReader("x"), 1,
		minio.PutObjectOptions{UserTags: map[string]string{"from": "the put"}}))
	found := func() string {
		return ok(m.client.GetObjectTagging(ctx, bucket, "k", minio.GetObjectTaggingOptions{})).String()
	}
	equal("tags of the put", found(), "from=the+put")
	wanted := ok(tags.MapToObjectTags(map[string]string{"a": "1", "b c": "x y"}))
	must(m.client.PutObjectTagging(ctx, bucket, "k", wanted, minio.PutObjectTaggingOptions{}))
	equal("tags", found(), wanted.String())
	must(m.client.RemoveObjectTagging(ctx, bucket, "k", minio.RemoveObjectTaggingOptions{}))
	equal("no tags", found(), "")
}

func (m minioChecks) bucketTags(ctx context.Context, bucket string) {
	_, err := m.client.GetBucketTagging(ctx, bucket)
	minioRefused("no tags", err, 404, "NoSuchTagSet")
	wanted := ok(tags.MapToBucketTags(map[string]string{"team": "storage"}))
	must(m.client.SetBucketTagging(ctx, bucket, wanted))
	equal("tags", ok(m.client.GetBucketTagging(ctx, bucket)).String(), "team=storage")
	must(m.client.RemoveBucketTagging(ctx, bucket))
	_, err = m.client.GetBucketTagging(ctx, bucket)
	minioRefused("removed tags", err, 404, "NoSuchTagSet")
}

func (m minioChecks) versions(ctx context.Context, bucket string) {
	must(m.client.EnableVersioning(ctx, bucket))
	equal("state", ok(m.client.GetBucketVersioning(ctx, bucket)).Status, "Enabled")
	old := m.put(ctx, bucket, "k", []byte("old"))
	m.put(ctx, bucket, "k", []byte("new"))
	must(m.client.RemoveObject(ctx, bucket, "k", minio.RemoveObjectOptions{}))
	same("old", m.read(ctx, bucket, "k", minio.GetObjectOptions{VersionID: old.VersionID}), []byte("old"))
	found := ""
	for object := range m.client.ListObjects(ctx, bucket, minio.ListObjectsOptions{WithVersions: true, Recursive: true}) {
		must(object.Err)
		found += fmt.Sprintf("%s %v %v;", object.Key, object.IsLatest, object.IsDeleteMarker)
		must(m.client.RemoveObject(ctx, bucket, object.Key, minio.RemoveObjectOptions{VersionID: object.VersionID}))
	}
	equal("versions", found, "k true true;k false false;k false false;")
	must(m.client.RemoveBucket(ctx, bucket))
}

func (m minioChecks) unfinished(ctx context.Context, bucket string) {
	core := minio.Core{Client: m.client}
	upload := ok(core.NewMultipartUpload(ctx, bucket, "k", minio.PutObjectOptions{}))
	data := content(100, "part")
	ok(core.PutObjectPart(ctx, bucket, "k", upload, 1, bytes.NewReader(data), 100, minio.PutObjectPartOptions{}))
	parts := ok(core.ListObjectParts(ctx, bucket, "k", upload, 0, 10))
	equal("parts", len(parts.ObjectParts), 1)
	for one := range m.client.ListIncompleteUploads(ctx, bucket, "", true) {
		must(one.Err)
		equal("upload", one.UploadID, upload)
	}
	must(m.client.RemoveIncompleteUpload(ctx, bucket, "k"))
	_, err := core.ListObjectParts(ctx, bucket, "k", upload, 0, 10)
	minioRefused("parts of an aborted upload", err, 404, "NoSuchUpload")
}

func (m minioChecks) presigned(ctx context.Context, bucket string) {
	data := content(1000, "presigned")
	to := ok(m.client.PresignedPutObject(ctx, bucket, "a b", time.Minute))
	request := ok(http.NewRequestWithContext(ctx, http.MethodPut, to.String(), bytes.NewReader(data)))
	answer := ok(http.DefaultClient.Do(request))
	must(answer.Body.Close())
	equal("status", answer.StatusCode, 200)
	from := ok(m.client.PresignedGetObject(ctx, bucket, "a b", time.Minute, url.Values{"response-content-type": {"text/y"}}))
	got := ok(http.DefaultClient.Do(ok(http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil))))
	defer got.Body.Close()
	same("content", ok(io.ReadAll(got.Body)), data)
	equal("type", got.Header.Get("Content-Type"), "text/y")
}
