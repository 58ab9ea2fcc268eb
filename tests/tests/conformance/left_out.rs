//! The page of what the embedded services leave out tells the truth: no listed operation is served, and each service is
//! on the page.

use std::collections::BTreeMap;

use chronova_web::route::Route;
use chronova_web::{identity, image, network, volume};

const PAGE: &str = include_str!("../../../docs/embedded-services.md");

/// An operation with unnamed parameters, as routes and the page both name it.
fn plain(method: &str, path: &str, action: Option<&str>) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
    let path = parts.collect::<Vec<_>>().join("/");
    action.map_or_else(|| format!("{method} {path}"), |action| format!("{method} {path} {action}"))
}

/// The operations of the page, by the heading of their service.
fn left_out() -> BTreeMap<&'static str, Vec<String>> {
    let (mut service, mut found) = ("", BTreeMap::<_, Vec<_>>::new());
    for line in PAGE.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            service = heading;
        } else if let Some(operation) = line.strip_prefix("* `").and_then(|rest| rest.strip_suffix('`')) {
            let mut words = operation.split(' ');
            let (methods, path, action) = (words.next().unwrap(), words.next().unwrap(), words.next());
            found.entry(service).or_default().extend(methods.split(',').map(|method| plain(method, path, action)));
        }
    }
    found
}

#[test]
fn operations_that_the_page_leaves_out_are_not_served() {
    let services: [(&str, &[&[Route]]); 4] = [
        ("Identity", identity::ROUTES),
        ("Image", image::ROUTES),
        ("Network", network::ROUTES),
        ("Volume", volume::ROUTES),
    ];
    let page = left_out();
    assert_eq!(page.len(), services.len(), "{:?}", page.keys());
    for (service, routes) in services {
        let served: Vec<_> = routes
            .iter()
            .copied()
            .flatten()
            .map(|route| plain(route.method.as_str(), route.path, route.action))
            .collect();
        let both: Vec<_> = page[service].iter().filter(|operation| served.contains(operation)).collect();
        assert!(both.is_empty(), "{service} serves operations that docs/embedded-services.md leaves out: {both:#?}");
    }
}
