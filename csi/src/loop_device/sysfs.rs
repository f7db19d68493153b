//! What `/sys` says about loop devices: it comes from memory of the kernel, and no file system is asked.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::Device;

/// The attributes of all block devices.
const BLOCK: &str = "/sys/block";
/// The unit of sizes in `/sys`.
const SECTOR_BYTES: u64 = 512;

fn attribute(number: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("{BLOCK}/loop{number}/{name}")).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

/// The present attachment of a device; `None` if it has none.
pub(super) fn attached(number: u32) -> Option<Device> {
    attribute(number, "loop/backing_file")?;
    Some(Device { number, sequence: attribute(number, "diskseq")?.parse().ok()? })
}

/// Whether a device is attached, and stays so when the last program closes it.
pub(super) fn is_kept(device: Device) -> bool {
    attached(device.number) == Some(device) && attribute(device.number, "loop/autoclear").as_deref() == Some("0")
}

/// Whether a device does direct I/O on its file.
pub(super) fn is_direct(number: u32) -> bool {
    attribute(number, "loop/dio").as_deref() == Some("1")
}

/// The size in bytes.
pub(super) fn size(number: u32) -> Option<u64> {
    attribute(number, "size")?.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)
}

/// All attached devices, each with the path of its file as far as this process sees it.
pub(super) fn all() -> io::Result<Vec<(Device, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(BLOCK)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop")).and_then(|number| number.parse().ok());
        let device = number.and_then(attached);
        let path = number.and_then(|number| attribute(number, "loop/backing_file"));
        found.extend(device.zip(path.map(PathBuf::from)));
    }
    Ok(found)
}
