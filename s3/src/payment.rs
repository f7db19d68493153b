//! GetBucketRequestPayment: requests are not billed, so the payer is the owner, AWS's default.

use s3s::dto::{GetBucketRequestPaymentInput, GetBucketRequestPaymentOutput, Payer};
use s3s::{S3Request, S3Response, S3Result};

use crate::service::Service;

/// Answers who pays for requests (S3 API, GetBucketRequestPayment).
pub(crate) async fn get(
    _service: &Service,
    _request: S3Request<GetBucketRequestPaymentInput>,
) -> S3Result<S3Response<GetBucketRequestPaymentOutput>> {
    let payer = Some(Payer::from_static(Payer::BUCKET_OWNER));
    Ok(S3Response::new(GetBucketRequestPaymentOutput { payer }))
}
