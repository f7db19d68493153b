package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// awsRole puts and gets an object with what the environment has, as in a pod: a token, a role and no key.
func awsRole(bucket string) {
	ctx := context.Background()
	settings := ok(config.LoadDefaultConfig(ctx))
	client := s3.NewFromConfig(settings, func(options *s3.Options) { options.UsePathStyle = true })
	data := bytes.Repeat([]byte("go"), 100_000)
	ok(client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("go"), Body: bytes.NewReader(data)}))
	got := ok(client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("go")}))
	if !bytes.Equal(ok(io.ReadAll(got.Body)), data) {
		panic("the object is another")
	}
	fmt.Println(ok(settings.Credentials.Retrieve(ctx)).AccessKeyID)
}
