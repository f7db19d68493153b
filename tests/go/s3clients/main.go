// Two S3 clients for Go against one server: `s3clients minio` is minio-go, `s3clients aws` is aws-sdk-go-v2.
//
// The environment has the server's address, AMPHORA_S3, and its root key, AMPHORA_KEY_ROOT (`id:secret`). No request is
// retried: one that fails once is a finding. All checks run, also after one has failed.
//
// `s3clients aws-role BUCKET` uses aws-sdk-go-v2 with the standard environment of a pod that has a role.
package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"
)

const mib = 1 << 20

// Each check gets its own bucket.
type check struct {
	name string
	run  func(ctx context.Context, bucket string)
}

// suite is the checks of one client library, and the calls that prepare their buckets.
type suite struct {
	makeBucket func(ctx context.Context, bucket string) error
	checks     []check
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "aws-role" {
		awsRole(os.Args[2])
		return
	}
	suites := map[string]func() suite{"minio": minioSuite, "aws": awsSuite}
	if len(os.Args) != 2 || suites[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: s3clients minio|aws, or s3clients aws-role BUCKET")
		os.Exit(2)
	}
	chosen := suites[os.Args[1]]()
	failed := 0
	for _, one := range chosen.checks {
		start := time.Now()
		if err := attempt(chosen, one); err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", one.name, err)
			continue
		}
		fmt.Printf("ok %s (%.1f s)\n", one.name, time.Since(start).Seconds())
	}
	fmt.Printf("%d of %d checks passed\n", len(chosen.checks)-failed, len(chosen.checks))
	if failed > 0 {
		os.Exit(1)
	}
}

func attempt(chosen suite, one check) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	bucket := strings.ReplaceAll(one.name, " ", "-")
	must(chosen.makeBucket(ctx, bucket))
	one.run(ctx, bucket)
	return nil
}

// endpoint is the server's URL.
func endpoint() string { return os.Getenv("AMPHORA_S3") }

// rootKey is the id and the secret of the root key.
func rootKey() (string, string) {
	id, secret, _ := strings.Cut(os.Getenv("AMPHORA_KEY_ROOT"), ":")
	return id, secret
}

// must ends the check if a call failed.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// ok is the value of a call that has to succeed.
func ok[T any](value T, err error) T {
	must(err)
	return value
}

// equal ends the check unless both are the same.
func equal[T comparable](what string, found, expected T) {
	if found != expected {
		panic(fmt.Sprintf("%s: found %v, expected %v", what, found, expected))
	}
}

// same ends the check unless the content is the expected one.
func same(what string, found, expected []byte) {
	if !bytes.Equal(found, expected) {
		panic(fmt.Sprintf("%s: found %d bytes, expected %d others", what, len(found), len(expected)))
	}
}

// content is bytes without repeated blocks.
func content(size int, seed string) []byte {
	block := sha256.Sum256([]byte(seed))
	out := make([]byte, 0, size+len(block))
	for len(out) < size {
		block = sha256.Sum256(block[:])
		out = append(out, block[:]...)
	}
	return out[:size]
}

// md5Hex is the ETag of an object put in one piece.
func md5Hex(data []byte) string {
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}
