//! Who may use a Unix socket of the server: root, and the user the server runs as.
//!
//! - The socket's mode says the same; this holds where the mode was changed, or its folder shared.

use tonic::service::InterceptorLayer;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

/// What checks each call that comes over a socket.
pub(super) type Check = fn(Request<()>) -> Result<Request<()>, Status>;

/// Refuses every call of anybody else, before it reaches a service.
pub(super) fn layer() -> InterceptorLayer<Check> {
    InterceptorLayer::new(check)
}

fn check(request: Request<()>) -> Result<Request<()>, Status> {
    let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
    match peer.map(|peer| peer.uid()) {
        Some(uid) if allowed(uid) => Ok(request),
        Some(uid) => Err(Status::permission_denied(format!(
            "user {uid} may not use this socket: only root and the user the server runs as may"
        ))),
        None => Err(Status::permission_denied("the system does not say who calls")),
    }
}

fn allowed(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_from_nowhere_is_refused() {
        let status = check(Request::new(())).expect_err("refused");
        assert_eq!(status.code(), tonic::Code::PermissionDenied);
    }

    #[test]
    fn root_and_the_own_user_are_allowed() {
        assert!(allowed(0) && allowed(rustix::process::geteuid().as_raw()));
        assert!(!allowed(rustix::process::geteuid().as_raw().wrapping_add(4242)));
    }
}
