package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

type awsChecks struct{ client *s3.Client }

func awsSuite() suite {
	id, secret := rootKey()
	client := s3.New(s3.Options{
		BaseEndpoint:     aws.String(endpoint()),
		Region:           "us-east-1",
		Credentials:      credentials.NewStaticCredentialsProvider(id, secret, ""),
		UsePathStyle:     true,
		RetryMaxAttempts: 1,
		// The values that the SDK's own configuration loader sets by default.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	})
	a := awsChecks{client}
	return suite{
		makeBucket: func(ctx context.Context, bucket string) error {
			_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
			return err
		},
		checks: []check{
			{"objects round trip", a.roundTrip},
			{"checksums", a.checksums},
			{"conditional puts", a.conditionalPuts},
			{"conditional deletes", a.conditionalDeletes},
			{"multipart uploads", a.multipart},
			{"ranges", a.ranges},
			{"listings", a.listings},
			{"deletions at once", a.deletions},
			{"copies", a.copies},
			{"tags", a.tags},
			{"versions", a.versions},
			{"attributes", a.attributes},
		},
	}
}

func (a awsChecks) put(ctx context.Context, bucket, key string, data []byte) *s3.PutObjectOutput {
	return ok(a.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(data)}))
}

func (a awsChecks) read(ctx context.Context, input *s3.GetObjectInput) []byte {
	answer := ok(a.client.GetObject(ctx, input))
	defer answer.Body.Close()
	return ok(io.ReadAll(answer.Body))
}

// awsRefused ends the check unless the call was refused with this code and status.
func awsRefused(what string, err error, status int, code string) {
	if err == nil {
		panic(what + ": was not refused")
	}
	var failure smithy.APIError
	var answer *http.ResponseError
	if !errors.As(err, &failure) || !errors.As(err, &answer) {
		panic(fmt.Sprintf("%s: %v", what, err))
	}
	equal(what, fmt.Sprint(answer.HTTPStatusCode(), " ", failure.ErrorCode()), fmt.Sprint(status, " ", code))
}

func (a awsChecks) roundTrip(ctx context.Context, bucket string) {
	for _, size := range []int{0, 1, 4096, 4097, 128 << 10, 128<<10 + 1, 5 * mib} {
		key := fmt.Sprintf("dir/size %d", size)
		data := content(size, key)
		put := ok(a.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &bucket, Key: &key, Body: bytes.NewReader(data), ContentType: aws.String("text/x"),
			Metadata: map[string]string{"origin": "go"},
		}))
		equal("ETag", *put.ETag, `"`+md5Hex(data)+`"`)
		same(key, a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key}), data)
		head := ok(a.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key}))
		equal("size", *head.ContentLength, int64(size))
		equal("metadata", head.Metadata["origin"], "go")
	}
	_, err := a.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("absent")})
	awsRefused("absent", err, 404, "NoSuchKey")
}

func (a awsChecks) checksums(ctx context.Context, bucket string) {
	data := content(70_000, "sums")
	for _, algorithm := range []types.ChecksumAlgorithm{
		types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc64nvme,
		types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256,
	} {
		key := string(algorithm)
		ok(a.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &bucket, Key: &key, Body: bytes.NewReader(data), ChecksumAlgorithm: algorithm,
		}))
		// The SDK checks what it reads against the checksum that the answer carries.
		got := a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key, ChecksumMode: types.ChecksumModeEnabled})
		same(key, got, data)
	}
	_, err := a.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &bucket, Key: aws.String("wrong"), Body: bytes.NewReader(data), ChecksumCRC32: aws.String("AAAAAA=="),
	})
	awsRefused("a wrong checksum", err, 400, "BadDigest")
	_, err = a.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: aws.String("wrong")})
	awsRefused("the object with the wrong checksum", err, 404, "NotFound")
}

func (a awsChecks) conditionalPuts(ctx context.Context, bucket string) {
	put := func(key string, match, none *string) (*s3.PutObjectOutput, error) {
		return a.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &bucket, Key: &key, Body: strings.NewReader("body"), IfMatch: match, IfNoneMatch: none,
		})
	}
	first := ok(put("k", nil, aws.String("*")))
	_, err := put("k", nil, aws.String("*"))
	awsRefused("created twice", err, 412, "PreconditionFailed")
	ok(put("k", first.ETag, nil))
	other := aws.String(`"` + md5Hex(nil) + `"`)
	_, err = put("k", other, nil)
	awsRefused("another ETag", err, 412, "PreconditionFailed")
	_, err = put("absent", other, nil)
	awsRefused("nothing to match", err, 404, "NoSuchKey")
}

func (a awsChecks) conditionalDeletes(ctx context.Context, bucket string) {
	put := a.put(ctx, bucket, "k", []byte("body"))
	remove := func(etag *string) error {
		_, err := a.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("k"), IfMatch: etag})
		return err
	}
	awsRefused("another ETag", remove(aws.String(`"`+md5Hex(nil)+`"`)), 412, "PreconditionFailed")
	same("content", a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("k")}), []byte("body"))
	must(remove(put.ETag))
	_, err := a.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("k")})
	awsRefused("deleted", err, 404, "NoSuchKey")
}

func (a awsChecks) multipart(ctx context.Context, bucket string) {
	key := aws.String("k")
	begin := func() *string {
		return ok(a.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &bucket, Key: key})).UploadId
	}
	parts := [][]byte{content(5*mib, "1"), content(6*mib, "2"), content(10, "3")}
	send := func(upload *string) *types.CompletedMultipartUpload {
		var done types.CompletedMultipartUpload
		for index, data := range parts {
			number := aws.Int32(int32(index + 1))
			part := ok(a.client.UploadPart(ctx, &s3.UploadPartInput{
				Bucket: &bucket, Key: key, UploadId: upload, PartNumber: number, Body: bytes.NewReader(data),
			}))
			done.Parts = append(done.Parts, types.CompletedPart{PartNumber: number, ETag: part.ETag, ChecksumCRC32: part.ChecksumCRC32})
		}
		return &done
	}
	complete := func(none *string) error {
		upload := begin()
		_, err := a.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &bucket, Key: key, UploadId: upload, MultipartUpload: send(upload), IfNoneMatch: none,
		})
		return err
	}
	must(complete(aws.String("*")))
	same("content", a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: key}), bytes.Join(parts, nil))
	same("a part", a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: key, PartNumber: aws.Int32(2)}), parts[1])
	awsRefused("completed over an object", complete(aws.String("*")), 412, "PreconditionFailed")
	aborted := begin()
	ok(a.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &bucket, Key: key, UploadId: aborted}))
	_, err := a.client.ListParts(ctx, &s3.ListPartsInput{Bucket: &bucket, Key: key, UploadId: aborted})
	awsRefused("parts of an aborted upload", err, 404, "NoSuchUpload")
}

func (a awsChecks) ranges(ctx context.Context, bucket string) {
	data := content(mib, "ranges")
	a.put(ctx, bucket, "k", data)
	for text, expected := range map[string][]byte{
		"bytes=0-0": data[:1], "bytes=100-199": data[100:200], "bytes=-7": data[mib-7:], "bytes=1000-": data[1000:],
	} {
		same(text, a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("k"), Range: &text}), expected)
	}
	_, err := a.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("k"), Range: aws.String("bytes=2000000-")})
	awsRefused("past the end", err, 416, "InvalidRange")
}

func (a awsChecks) listings(ctx context.Context, bucket string) {
	var expected []string
	for number := range 25 {
		key := fmt.Sprintf("d%d/k %02d", number%3, number)
		a.put(ctx, bucket, key, nil)
		expected = append(expected, key)
	}
	count := 0
	pages := s3.NewListObjectsV2Paginator(a.client, &s3.ListObjectsV2Input{Bucket: &bucket, MaxKeys: aws.Int32(7)})
	for pages.HasMorePages() {
		count += len(ok(pages.NextPage(ctx)).Contents)
	}
	equal("keys", count, len(expected))
	folders := ok(a.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Delimiter: aws.String("/")}))
	equal("folders", len(folders.CommonPrefixes), 3)
	buckets := s3.NewListBucketsPaginator(a.client, &s3.ListBucketsInput{MaxBuckets: aws.Int32(2)})
	found := false
	for buckets.HasMorePages() {
		for _, one := range ok(buckets.NextPage(ctx)).Buckets {
			found = found || *one.Name == bucket
		}
	}
	equal("the bucket is listed", found, true)
}
