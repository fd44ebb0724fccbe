//! The throughput of a new container, as it is written.

use cosmos::Throughput;

/// Reads `serverless`, `autoscale:4000` or `manual:400`.
pub fn throughput(text: &str) -> Result<Throughput, String> {
    let units = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|units| *units > 0 && units.is_multiple_of(100))
    };
    let parsed = match text.split_once(':') {
        None if text == "serverless" => Some(Throughput::Serverless),
        Some(("autoscale", most)) => units(most)
            .filter(|most| *most >= 1000 && most.is_multiple_of(1000))
            .map(Throughput::Autoscale),
        Some(("manual", all)) => units(all).filter(|all| *all >= 400).map(Throughput::Manual),
        _ => None,
    };
    parsed.ok_or_else(|| {
        "use serverless, autoscale:N with N a multiple of 1000, or manual:N with N a multiple of 100 and at least 400"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_throughputs_that_the_service_accepts_are_parsed() {
        assert_eq!(throughput("serverless"), Ok(Throughput::Serverless));
        assert_eq!(throughput("autoscale:4000"), Ok(Throughput::Autoscale(4000)));
        assert_eq!(throughput("manual:400"), Ok(Throughput::Manual(400)));
        for wrong in [
            "",
            "auto",
            "autoscale:1500",
            "autoscale:0",
            "manual:300",
            "manual:450",
            "manual:-1",
        ] {
            assert!(throughput(wrong).is_err(), "{wrong}");
        }
    }
}
