//! Reads the file of `[chronova] extra_spec_validators`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use chronova_web::compute::CustomExtraSpecs;

/// The longest accepted file, in bytes.
const LONGEST: u64 = 1 << 20;

/// Reads the descriptions of the file.
///
/// # Errors
/// The file cannot be read or used. The message names the file.
pub(super) fn read(path: &Path) -> Result<CustomExtraSpecs, String> {
    let told = |reason: String| format!("{}: {reason}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| told(error.to_string()))?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| told(error.to_string()))?;
    if text.len() as u64 > LONGEST {
        return Err(told(format!("it is longer than {LONGEST} bytes")));
    }
    CustomExtraSpecs::read(&text).map_err(told)
}
