//! Amphora's gRPC messages and services, generated from the `.proto` files beside this crate.
//!
//! - The CSI and COSI messages agree with the upstream releases that `README.md` names; `tests/upstream.rs` checks it.
//! - `Debug` of a message shows no secret: fields marked `csi_secret`, `cosi_secret` or `debug_redact`, and those that
//!   `build.rs` lists, print as `<redacted>`.
//! - Generated types stop at the edge of each RPC: no other crate stores them.

pub mod calls;
mod secrets;

/// The Container Storage Interface.
pub mod csi {
    /// Package `csi.v1`, as of CSI v1.12.0.
    #[expect(missing_docs, clippy::allow_attributes, reason = "generated code; obvious fields have no comment")]
    pub mod v1 {
        tonic::include_proto!("csi.v1");
    }
}

/// The Container Object Storage Interface.
pub mod cosi {
    /// Package `cosi.v1alpha1`.
    #[expect(missing_docs, clippy::allow_attributes, reason = "generated code; obvious fields have no comment")]
    pub mod v1alpha1 {
        tonic::include_proto!("cosi.v1alpha1");
    }

    /// Package `sigs.k8s.io.cosi.v1alpha2`.
    #[expect(missing_docs, clippy::allow_attributes, reason = "generated code; obvious fields have no comment")]
    pub mod v1alpha2 {
        tonic::include_proto!("sigs.k8s.io.cosi.v1alpha2");
    }
}

/// Amphora's own interfaces.
pub mod amphora {
    /// Between the command line and the server.
    pub mod admin {
        /// Package `amphora.admin.v1`.
        #[expect(clippy::allow_attributes, reason = "generated")]
        pub mod v1 {
            tonic::include_proto!("amphora.admin.v1");
        }
    }
}

/// An encoded `google.protobuf.FileDescriptorSet` of every package here and what they
/// import, options included, for reflection and for comparison with upstream.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
