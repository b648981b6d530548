//! The choice of files of a repository.

/// Files for one purpose, such as the weights of a model.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Alternatives, best first. Each lists names or patterns, of which every one has to match a file; `*` stands for any
    /// characters except `/`.
    pub any_of: &'a [&'a [&'a str]],
    /// True if the repository is of no use without.
    pub is_required: bool,
    /// What to do if none of a required choice is there.
    pub remedy: &'a str,
    /// Files for the same purpose that this program cannot use, for the message.
    pub unusable: &'a [&'a str],
}

impl<'a> Wanted<'a> {
    /// A file that has to be there.
    pub const fn required(any_of: &'a [&'a [&'a str]], remedy: &'a str) -> Self {
        Self {
            any_of,
            is_required: true,
            remedy,
            unusable: &[],
        }
    }

    /// A file that is taken if it is there.
    pub const fn optional(any_of: &'a [&'a [&'a str]]) -> Self {
        Self {
            any_of,
            is_required: false,
            remedy: "",
            unusable: &[],
        }
    }

    /// The same with files that are named in the message if nothing usable is there.
    pub const fn but_not(mut self, unusable: &'a [&'a str]) -> Self {
        self.unusable = unusable;
        self
    }

    /// The files of the first alternative that is there.
    fn choose(&self, files: &[String]) -> Option<Vec<String>> {
        self.any_of.iter().find_map(|patterns| {
            let matching = patterns.iter().map(|pattern| {
                let found = files.iter().filter(|file| matches(pattern, file));
                found.cloned().collect::<Vec<String>>()
            });
            let matching: Vec<Vec<String>> = matching.collect();
            let is_there = !matching.is_empty() && matching.iter().all(|found| is_whole(found));
            is_there.then(|| matching.concat())
        })
    }

    /// The alternatives for messages.
    fn names(&self) -> String {
        let alternatives = self.any_of.iter().map(|patterns| patterns.join(" with "));
        alternatives.collect::<Vec<_>>().join(" or ")
    }

    fn missing(&self, files: &[String]) -> String {
        let found: Vec<&str> = (self.unusable.iter().copied())
            .filter(|name| files.iter().any(|file| file == name))
            .collect();
        let mut problem = format!("there is no {}", self.names());
        if !found.is_empty() {
            problem += &format!(
                ", only {}, which this program does not read",
                found.join(", ")
            );
        }
        if self.remedy.is_empty() {
            problem
        } else {
            format!("{problem}; {}", self.remedy)
        }
    }
}

/// The chosen files in the order of `wanted`, each once; an error names what is missing.
pub fn choose(files: &[String], wanted: &[Wanted<'_>]) -> Result<Vec<String>, String> {
    let mut chosen: Vec<String> = Vec::new();
    for one in wanted {
        match one.choose(files) {
            Some(found) => chosen.extend(found),
            None if one.is_required => return Err(one.missing(files)),
            None => {}
        }
    }
    let mut seen = std::collections::HashSet::new();
    chosen.retain(|file| seen.insert(file.clone()));
    Ok(chosen)
}

/// True if files match a pattern, and if they are numbered as `-00001-of-00003`, all of them.
fn is_whole(files: &[String]) -> bool {
    let count = |file: &String| -> Option<usize> {
        let (_, after) = file.rsplit_once("-of-")?;
        after.split('.').next()?.parse().ok()
    };
    match files.first() {
        None => false,
        Some(first) => count(first).is_none_or(|parts| parts == files.len()),
    }
}

/// True if a path has the form of a pattern, in which `*` stands for any characters except `/`.
fn matches(pattern: &str, path: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == path;
    };
    let Some(mut path) = path.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    // The earliest match of each part in the middle leaves the most for the others.
    for part in parts {
        match path.find(part) {
            Some(start) if !path[..start].contains('/') => path = &path[start + part.len()..],
            _ => return false,
        }
    }
    path.strip_suffix(last)
        .is_some_and(|middle| !middle.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: Wanted<'static> = Wanted::required(
        &[
            &["model.safetensors"],
            &["model.safetensors.index.json", "model-*-of-*.safetensors"],
            &["pytorch_model.bin"],
        ],
        "choose another model",
    )
    .but_not(&["tf_model.h5"]);

    fn chosen(files: &[&str]) -> Result<Vec<String>, String> {
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        choose(&files, &[Wanted::optional(&[&["vocab.txt"]]), WEIGHTS])
    }

    #[test]
    fn the_best_alternative_is_chosen() {
        assert_eq!(
            chosen(&["pytorch_model.bin", "model.safetensors", "vocab.txt"]).unwrap(),
            ["vocab.txt", "model.safetensors"]
        );
        let parts = [
            "model.safetensors.index.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ];
        assert_eq!(chosen(&parts).unwrap(), parts);
        // A part is missing.
        let files = [parts[0], parts[1], "pytorch_model.bin"];
        assert_eq!(chosen(&files).unwrap(), ["pytorch_model.bin"]);
        assert_eq!(
            chosen(&["tf_model.h5", "x/model.safetensors"]).unwrap_err(),
            "there is no model.safetensors or model.safetensors.index.json with model-*-of-*.safetensors or \
             pytorch_model.bin, only tf_model.h5, which this program does not read; choose another model"
        );
    }

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("a.txt", "a.txt", true),
            ("a.txt", "b/a.txt", false),
            ("*", "a", true),
            ("*", "a/b", false),
            ("*.txt", "a.txt", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "axbxbxc", true),
            ("a*b*c", "ac", false),
            ("a*a", "a", false),
            ("a**a", "aa", true),
            ("a*/b", "ax/b", true),
            ("a*c", "ab/c", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
