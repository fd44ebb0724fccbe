//! The files of the dashboard, which the build script (`build/dashboard.rs`) has compressed and embedded.
//!
//! Invariant: nothing is decompressed or hashed at the start of the program, so that a cold start does not depend on the dashboard.

use flate2::read::GzDecoder;
use std::io::{self, Read as _};

include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// One file.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Its path below the folder of this version, like `core/api.js`.
    path: &'static str,
    pub media_type: &'static str,
    /// Weak: it stands for the compressed and for the plain bytes.
    pub etag: &'static str,
    pub gzip: &'static [u8],
}

impl Asset {
    /// The file of this path.
    pub(crate) fn find(path: &str) -> Option<&'static Asset> {
        let found = FILES.binary_search_by(|asset| asset.path.cmp(path));
        found.ok().map(|index| &FILES[index])
    }

    /// Its bytes, for the few clients that do not take compressed ones.
    pub(crate) fn plain(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.gzip).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn text(asset: &Asset) -> String {
        String::from_utf8(asset.plain().unwrap()).unwrap()
    }

    fn on_disk(path: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard");
        std::fs::read_to_string(folder.join(path)).unwrap()
    }

    #[test]
    fn every_embedded_file_is_found_and_is_the_file_of_the_folder() {
        assert!(Asset::find("main.js").is_some());
        for asset in FILES {
            let found = Asset::find(asset.path).unwrap();
            let is_same = found.path == asset.path && text(found) == on_disk(asset.path);
            assert!(is_same, "{}", asset.path);
        }
        for other in ["", "index.html", "../Cargo.toml", "main.js/", "nothing.js"] {
            assert!(Asset::find(other).is_none(), "{other}");
        }
    }

    #[test]
    fn files_for_developers_are_not_embedded() {
        for asset in FILES {
            let is_served = [".js", ".css", ".svg"].iter().any(|end| asset.path.ends_with(end));
            let is_for_developers = asset.path.ends_with(".test.js") || asset.path == "core/types.js";
            assert!(is_served && !is_for_developers, "{}", asset.path);
        }
    }

    #[test]
    fn the_page_names_files_of_this_version_by_relative_urls() {
        let page = text(&PAGE);
        assert!(
            !page.contains("__VERSION__") && !page.contains("<!-- modulepreload"),
            "{page}"
        );
        let urls = page.split(['"', '\'']).filter(|part| part.contains("dashboard/"));
        let urls: Vec<&str> = urls.collect();
        assert!(urls.iter().any(|url| url.ends_with("/main.js")), "{urls:?}");
        for url in urls {
            let path = url
                .strip_prefix(&format!("dashboard/{VERSION}/"))
                .unwrap_or_else(|| panic!("{url}"));
            assert!(Asset::find(path).is_some(), "{url}");
        }
    }

    #[test]
    fn each_module_that_the_main_one_imports_is_preloaded() {
        let page = text(&PAGE);
        for line in on_disk("main.js").lines().filter(|line| line.starts_with("import ")) {
            let target = line.split(['"', '\'']).nth(1).unwrap().trim_start_matches("./");
            let link = format!("<link rel=\"modulepreload\" href=\"dashboard/{VERSION}/{target}\">");
            assert!(page.contains(&link), "{link}");
        }
    }

    #[test]
    fn all_files_fit_150_kb() {
        let bytes: usize = FILES.iter().chain([&PAGE]).map(|asset| asset.gzip.len()).sum();
        assert!(bytes <= 150_000, "{bytes}");
    }
}
