package main

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
)

// postPolicy sends what a browser's form sends, within and outside the signed policy.
func (m minioChecks) postPolicy(ctx context.Context, bucket string) {
	policy := minio.NewPostPolicy()
	must(policy.SetBucket(bucket))
	must(policy.SetKeyStartsWith("up/"))
	must(policy.SetContentLengthRange(1, 1000))
	must(policy.SetExpires(time.Now().Add(time.Minute)))
	address, fields, err := m.client.PresignedPostPolicy(ctx, policy)
	must(err)
	post := func(key string, data []byte) int {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for name, value := range fields {
			if name != "key" {
				must(form.WriteField(name, value))
			}
		}
		must(form.WriteField("key", key))
		ok(ok(form.CreateFormFile("file", "name.txt")).Write(data))
		must(form.Close())
		request := ok(http.NewRequestWithContext(ctx, http.MethodPost, address.String(), &body))
		request.Header.Set("Content-Type", form.FormDataContentType())
		answer := ok(http.DefaultClient.Do(request))
		must(answer.Body.Close())
		return answer.StatusCode
	}
	data := content(500, "post")
	equal("within the policy", post("up/k", data), 204)
	same("content", m.read(ctx, bucket, "up/k", minio.GetObjectOptions{}), data)
	equal("another prefix", post("down/k", data), 403)
	equal("too large", post("up/large", content(1001, "large")), 400)
	equal("keys", m.keys(ctx, bucket, minio.ListObjectsOptions{Recursive: true}), "up/k")
}
