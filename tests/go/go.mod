module amphora/tests/go

go 1.25.0

require (
	github.com/aws/aws-sdk-go-v2 v1.47.7
	github.com/aws/aws-sdk-go-v2/credentials v1.19.0
	github.com/aws/aws-sdk-go-v2/service/s3 v1.114.8
	github.com/minio/minio-go/v7 v7.4.1
	github.com/rclone/rclone v1.75.1
)
