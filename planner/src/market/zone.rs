//! Where a zone is, as SkyPilot writes it (`infra`), from the name of the zone and of its provider, if that is known.
//!
//! | provider | zone | `infra` |
//! |---|---|---|
//! | AWS | `us-east-1a` | `aws/us-east-1/us-east-1a` |
//! | Google | `us-central1-a` | `gcp/us-central1/us-central1-a` |
//! | Azure | `eastus-1`, `eastus` | `azure/eastus/1`, `azure/eastus` |
//! | Azure, as tables of prices write it | `us_north_central` | `azure/northcentralus` |
//!
//! Traces name no provider: the form of the name tells it, as no two providers name their zones alike. A name of no such form has no `infra`. O(1).
//!
//! Worked example: `europe-west4-b` ends in a letter of its own and its region in a number, so it is Google's: `gcp/europe-west4/europe-west4-b`.

/// Points of the compass, by which Azure names its regions.
const COMPASS: [&str; 5] = ["north", "south", "east", "west", "central"];
/// What lies there.
const AREAS: [&str; 24] = [
    "us",
    "europe",
    "asia",
    "india",
    "japan",
    "uk",
    "australia",
    "canada",
    "brazil",
    "korea",
    "france",
    "germany",
    "norway",
    "sweden",
    "switzerland",
    "uae",
    "africa",
    "poland",
    "italy",
    "israel",
    "qatar",
    "spain",
    "mexico",
    "chile",
];

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_lowercase())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit())
}

fn aws(zone: &str) -> Option<String> {
    let region = zone.strip_suffix(|letter: char| letter.is_ascii_lowercase())?;
    let mut parts = region.split('-');
    let (area, place, number) = (parts.next()?, parts.next()?, parts.next_back()?);
    (area.len() == 2 && is_word(place) && is_number(number)).then(|| format!("aws/{region}/{zone}"))
}

/// Whether a name is one of Google's zones: words, a number at the end of the region, and a letter.
fn is_googles(zone: &str) -> bool {
    let Some((region, letter)) = zone.rsplit_once('-') else { return false };
    let Some((area, place)) = region.split_once('-') else { return false };
    let words = place.trim_end_matches(|digit: char| digit.is_ascii_digit());
    letter.len() == 1 && is_word(letter) && is_word(area) && is_word(words) && words.len() < place.len()
}

/// Whether a word is one of Azure's regions: an area and points of the compass, before it or after it, and perhaps a number.
fn is_azures(region: &str) -> bool {
    let word = region.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let mut area = word;
    for point in COMPASS.iter().chain(&COMPASS) {
        area = area.strip_prefix(point).or_else(|| area.strip_suffix(point)).unwrap_or(area);
    }
    area.len() < word.len() && AREAS.contains(&area)
}

fn azure(zone: &str) -> String {
    match (zone.split_once('_'), zone.rsplit_once('-')) {
        // Tables of prices write `us_north_central`, Azure itself `northcentralus`.
        (Some((area, part)), _) => format!("azure/{}{area}", part.replace('_', "")),
        (None, Some((region, number))) if is_number(number) => format!("azure/{region}/{number}"),
        _ => format!("azure/{zone}"),
    }
}

/// Whether a name is one of Azure's regions or zones, by its form.
fn is_of_azure(zone: &str) -> bool {
    let region = zone.rsplit_once('-').filter(|(_, number)| is_number(number)).map_or(zone, |(region, _)| region);
    match region.split_once('_') {
        Some((area, part)) => AREAS.contains(&area) && part.split('_').all(|word| COMPASS.contains(&word)),
        None => is_azures(region),
    }
}

/// The region of a zone: `us-east-1` of AWS's `us-east-1a`, `us-central1` of Google's `us-central1-a`, `eastus` of Azure's `eastus-1`; another name is a region of its own.
pub fn region_of(zone: &str) -> &str {
    if let Some((region, number)) = zone.rsplit_once('-')
        && is_number(number)
        && is_of_azure(zone)
    {
        return region;
    }
    let Some(short) = zone.strip_suffix(|letter: char| letter.is_ascii_lowercase()) else { return zone };
    let short = short.strip_suffix('-').unwrap_or(short);
    if short.ends_with(|digit: char| digit.is_ascii_digit()) { short } else { zone }
}

/// The place of a zone of a provider, if it is known which; nothing where neither the provider nor the form of the name tells it.
pub(crate) fn infra(provider: Option<&str>, zone: &str) -> Option<String> {
    match provider {
        Some("azure") => Some(azure(zone)),
        Some("gcp") => Some(format!("gcp/{}/{zone}", region_of(zone))),
        Some("aws") => aws(zone),
        _ if is_googles(zone) => infra(Some("gcp"), zone),
        _ if is_of_azure(zone) => Some(azure(zone)),
        _ => aws(zone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_placed_by_the_form_of_their_names() {
        let of = |zone: &str| infra(None, zone);
        for (zone, place) in [
            ("us-east-1a", "aws/us-east-1/us-east-1a"),
            ("us-gov-west-1b", "aws/us-gov-west-1/us-gov-west-1b"),
            ("us-central1-a", "gcp/us-central1/us-central1-a"),
            ("europe-west4-b", "gcp/europe-west4/europe-west4-b"),
            ("northamerica-northeast1-c", "gcp/northamerica-northeast1/northamerica-northeast1-c"),
            ("eastus", "azure/eastus"),
            ("westus2-3", "azure/westus2/3"),
            ("southcentralus-1", "azure/southcentralus/1"),
            ("japaneast", "azure/japaneast"),
            ("us_north_central", "azure/northcentralus"),
        ] {
            assert_eq!(of(zone).as_deref(), Some(place));
        }
        for zone in ["zone", "", "a", "trace-1", "us", "us-central1", "east", "us-east-1", "together"] {
            assert_eq!(of(zone), None, "{zone}");
        }
        // Whose zone it is may be known.
        assert_eq!(infra(Some("gcp"), "us-west1-b").as_deref(), Some("gcp/us-west1/us-west1-b"));
        assert_eq!(infra(Some("azure"), "us_north_central").as_deref(), Some("azure/northcentralus"));
        assert_eq!(infra(Some("aws"), "us-west1-b"), None);
    }
}
