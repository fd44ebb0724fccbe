//! The build script: embeds the dashboard into the server. The types alone (without the feature `server`) need nothing.

#[cfg(feature = "server")]
mod dashboard;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    #[cfg(feature = "server")]
    dashboard::embed()?;
    Ok(())
}
