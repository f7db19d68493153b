//! The seam to `s3s`: one service of `s3s` for each request.
//!
//! - `s3s` gives its key look-up (`S3Auth`) an access key id and nothing else, and asks for its configuration without an
//!   argument. So both are made for one request and hold its context; the access check and the operations hold it too.
//! - Authentication is always configured: without it `s3s` would skip the access check.
//! - Method, path, headers and parameters select the operation, as on AWS. `x-id`, which SDKs add to their URLs, is
//!   removed: `s3s` would let it select the operation, and bypass every guard that reads the same head.

use std::sync::Arc;

use http::request::Parts;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::region::Region;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError, HttpResponse};

use crate::access::Access;
use crate::address::Domains;
use crate::auth::Keys;
use crate::body::{CHUNK_BYTES_MAX, DOCUMENT_BYTES_MAX};
use crate::operations::Operations;
use crate::request::Request;
use crate::service::Call;

/// The configuration of `s3s` that all requests share.
pub(crate) struct Adapter {
    config: Arc<S3Config>,
    domains: Domains,
}

impl Adapter {
    /// The configuration for this region, with buckets in hosts below these domains.
    pub(crate) fn new(region: Region, domains: Domains) -> Self {
        let mut config = S3Config::default();
        config.expected_region = Some(region);
        config.sig_v4_allowed_services = vec!["s3".into()];
        config.enable_sig_v2 = false;
        config.allow_post_signature = false;
        config.operation_id_routing = false;
        config.xml_max_body_size = DOCUMENT_BYTES_MAX;
        config.aws_chunked_stream_max_chunk_size = CHUNK_BYTES_MAX;
        Self { config: Arc::new(config), domains }
    }

    /// Has `s3s` route a request, verify its signature, check its caller's access and perform its operation.
    ///
    /// # Errors
    /// A failure outside of an operation.
    pub(crate) async fn serve(&self, call: &Call, head: Parts, body: Body) -> Result<HttpResponse, HttpError> {
        self.service(call).call(http::Request::from_parts(head, body)).await
    }

    fn service(&self, call: &Call) -> S3Service {
        let mut builder = S3ServiceBuilder::new(Operations(call.clone()));
        builder.set_auth(Keys(call.clone()));
        builder.set_access(Access(call.clone()));
        builder.set_host(self.domains.clone());
        builder.set_config(Arc::new(StaticConfigProvider::new(self.config_of(&call.request))));
        builder.build()
    }

    /// The configuration for a request: headers that came from the URL are signed as part of the URL.
    fn config_of(&self, request: &Request) -> Arc<S3Config> {
        let hoisted = request.hoisted();
        if hoisted.is_empty() {
            return Arc::clone(&self.config);
        }
        let mut config = S3Config::clone(&self.config);
        config.unsigned_amz_header_allowlist.extend(hoisted.iter().map(ToString::to_string));
        Arc::new(config)
    }
}
