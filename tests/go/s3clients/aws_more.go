package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func (a awsChecks) deletions(ctx context.Context, bucket string) {
	var doomed []types.ObjectIdentifier
	for number := range 20 {
		key := fmt.Sprintf("k%02d&<>", number)
		a.put(ctx, bucket, key, nil)
		doomed = append(doomed, types.ObjectIdentifier{Key: &key})
	}
	answer := ok(a.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &bucket, Delete: &types.Delete{Objects: doomed},
	}))
	equal("deleted", fmt.Sprint(len(answer.Deleted), len(answer.Errors)), "20 0")
	ok(a.client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket}))
	_, err := a.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket})
	awsRefused("a bucket that is gone", err, 404, "NotFound")
}

func (a awsChecks) copies(ctx context.Context, bucket string) {
	data := content(300_000, "copy")
	a.put(ctx, bucket, "a b+ü", data)
	// The SDK sends the source unchanged: the caller has to encode it.
	source := bucket + "/a%20b%2B%C3%BC"
	copied := ok(a.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: &bucket, Key: aws.String("copy"), CopySource: &source,
		MetadataDirective: types.MetadataDirectiveReplace, Metadata: map[string]string{"by": "copy"},
	}))
	equal("ETag", *copied.CopyObjectResult.ETag, `"`+md5Hex(data)+`"`)
	same("copy", a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("copy")}), data)
	_, err := a.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: &bucket, Key: aws.String("no"), CopySource: &source, CopySourceIfNoneMatch: copied.CopyObjectResult.ETag,
	})
	awsRefused("the ETag that must not be", err, 412, "PreconditionFailed")
	_, err = a.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: &bucket, Key: aws.String("copy"), CopySource: &source, IfNoneMatch: aws.String("*"),
	})
	awsRefused("a copy over an object", err, 412, "PreconditionFailed")
}

func (a awsChecks) tags(ctx context.Context, bucket string) {
	key := aws.String("k")
	ok(a.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &bucket, Key: key, Body: strings.NewReader("x"), Tagging: aws.String("from=the%20put"),
	}))
	found := func() string {
		text := ""
		for _, tag := range ok(a.client.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: &bucket, Key: key})).TagSet {
			text += *tag.Key + "=" + *tag.Value + ";"
		}
		return text
	}
	equal("tags of the put", found(), "from=the put;")
	equal("count", *ok(a.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: key})).TagCount, 1)
	tagging := types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("1")}}}
	ok(a.client.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: &bucket, Key: key, Tagging: &tagging}))
	equal("tags", found(), "a=1;")
	ok(a.client.DeleteObjectTagging(ctx, &s3.DeleteObjectTaggingInput{Bucket: &bucket, Key: key}))
	equal("no tags", found(), "")
}

func (a awsChecks) versions(ctx context.Context, bucket string) {
	ok(a.client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	}))
	old := a.put(ctx, bucket, "k", []byte("old"))
	a.put(ctx, bucket, "k", []byte("new"))
	marker := ok(a.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("k")}))
	equal("marker", *marker.DeleteMarker, true)
	same("old", a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("k"), VersionId: old.VersionId}), []byte("old"))
	pages := s3.NewListObjectVersionsPaginator(a.client, &s3.ListObjectVersionsInput{Bucket: &bucket, MaxKeys: aws.Int32(1)})
	versions, markers := 0, 0
	for pages.HasMorePages() {
		page := ok(pages.NextPage(ctx))
		versions, markers = versions+len(page.Versions), markers+len(page.DeleteMarkers)
	}
	equal("versions and markers", fmt.Sprint(versions, markers), "2 1")
	ok(a.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("k"), VersionId: marker.VersionId}))
	same("new", a.read(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("k")}), []byte("new"))
}

func (a awsChecks) attributes(ctx context.Context, bucket string) {
	data := content(1000, "attributes")
	put := a.put(ctx, bucket, "k", data)
	found := ok(a.client.GetObjectAttributes(ctx, &s3.GetObjectAttributesInput{
		Bucket: &bucket, Key: aws.String("k"),
		ObjectAttributes: []types.ObjectAttributes{
			types.ObjectAttributesEtag, types.ObjectAttributesObjectSize, types.ObjectAttributesChecksum,
			types.ObjectAttributesStorageClass,
		},
	}))
	equal("size", *found.ObjectSize, 1000)
	equal("ETag", *found.ETag, strings.Trim(*put.ETag, `"`))
	equal("checksum", *found.Checksum.ChecksumCRC32, *put.ChecksumCRC32)
	equal("class", found.StorageClass, types.StorageClassStandard)
}
