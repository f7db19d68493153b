//! The record of the authority whose certificates the volume listener shows, in a store without a data folder of its own.

use prost::Message;

/// The authority. Its key is sealed under the master key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VolumeAuthority {
    /// Its certificate in PEM, which nodes trust.
    #[prost(string, tag = "1")]
    pub certificate: String,
    /// Its sealed private key, in PEM.
    #[prost(bytes = "vec", tag = "2")]
    pub sealed_key: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn the_record_round_trips() {
        let record = VolumeAuthority { certificate: "certificate".into(), sealed_key: vec![1, 2, 3] };
        assert_eq!(decode::<VolumeAuthority>("the authority", &record.encode_to_vec()).unwrap(), record);
    }
}
