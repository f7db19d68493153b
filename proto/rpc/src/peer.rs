//! Authorization of callers on the Unix sockets: root, and the user of the server.
//!
//! - The socket's mode allows no others; this check holds even if the mode was changed or the folder is shared.

use axum::extract::Request;
use axum::http::Extensions;
use axum::middleware::Next;
use axum::response::Response;
use tonic::Status;
use tonic::transport::server::UdsConnectInfo;

/// Refuses calls of all other users before they reach a service.
pub(crate) async fn admit(request: Request, next: Next) -> Response {
    match check(request.extensions()) {
        Ok(()) => next.run(request).await,
        Err(status) => status.into_http(),
    }
}

fn check(connection: &Extensions) -> Result<(), Status> {
    let peer = connection.get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
    match peer.map(|peer| peer.uid()) {
        Some(uid) if allowed(uid) => Ok(()),
        Some(uid) => Err(Status::permission_denied(format!(
            "user {uid} may not use this socket: only root and the user the server runs as may"
        ))),
        None => Err(Status::permission_denied("the system does not report the calling user")),
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
        let status = check(&Extensions::new()).expect_err("refused");
        assert_eq!(status.code(), tonic::Code::PermissionDenied);
    }

    #[test]
    fn root_and_the_own_user_are_allowed() {
        assert!(allowed(0) && allowed(rustix::process::geteuid().as_raw()));
        assert!(!allowed(rustix::process::geteuid().as_raw().wrapping_add(4242)));
    }
}
