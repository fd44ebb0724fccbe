//! Search: every filter finds what it should, newest first (`filters`); a walk sees each instance once, whatever happens meanwhile
//! (`walks`); and a page costs the same, however much is stored (`costs`).

mod costs;
mod filters;
mod walks;

use duroxide_cosmos::{CosmosProvider, InstanceFilter, InstanceStatus, InstanceSummary};

fn ids(found: &[InstanceSummary]) -> Vec<&str> {
    found.iter().map(|summary| summary.instance.as_str()).collect()
}

/// All pages.
async fn walk(provider: &CosmosProvider, filter: &InstanceFilter, limit: usize) -> Vec<InstanceSummary> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = provider.search(filter, cursor.as_deref(), limit).await.expect("a page");
        assert!(page.instances.len() <= limit);
        found.extend(page.instances);
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn filter(change: impl FnOnce(&mut InstanceFilter)) -> InstanceFilter {
    let mut filter = InstanceFilter::default();
    change(&mut filter);
    filter
}

fn of_status(status: InstanceStatus) -> InstanceFilter {
    filter(|filter| filter.status = Some(status))
}
