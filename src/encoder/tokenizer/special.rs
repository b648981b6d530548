//! The special pieces of a tokenizer: those around a sentence, for padding and for what is unknown.

use std::path::Path;

use serde_json::Value;
use tokenizers::processors::template::{SpecialToken, TemplateProcessing};
use tokenizers::{Encoding, PostProcessor, Token, Tokenizer};

use super::running_text::unknown_id;
use crate::error::{Error, Result};
use crate::process;

/// Ids of the special pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpecialPieces {
    /// The piece before every sentence.
    pub(super) cls: u32,
    /// The piece after every sentence.
    pub(super) sep: u32,
    /// The piece that fills short rows.
    pub(super) padding: u32,
    /// The piece of a word of which the tokenizer leaves nothing.
    pub(super) unknown: u32,
}

/// A special piece's task.
struct Role {
    /// What it is, for messages.
    what: &'static str,
    /// Keys in `tokenizer_config.json` and `special_tokens_map.json`, best first.
    keys: &'static [&'static str],
    /// Usual names, best first.
    names: &'static [&'static str],
}

const CLS: Role = Role {
    what: "start-of-sentence piece",
    keys: &["cls_token", "bos_token"],
    names: &["[CLS]", "<s>", "<bos>"],
};
const SEP: Role = Role {
    what: "end-of-sentence piece",
    keys: &["sep_token", "eos_token"],
    names: &["[SEP]", "</s>", "<eos>"],
};
const PADDING: Role = Role {
    what: "padding piece",
    keys: &["pad_token"],
    names: &["[PAD]", "<pad>"],
};
const UNKNOWN: Role = Role {
    what: "unknown piece",
    keys: &["unk_token"],
    names: &["[UNK]", "<unk>"],
};

impl SpecialPieces {
    /// Finds the special pieces of a tokenizer: as its file says, as the `hints` of the files beside it say, or else by their
    /// usual names. `origin` is the file, for messages.
    pub(super) fn find(tokenizer: &Tokenizer, hints: &Hints, origin: &Path) -> Result<Self> {
        let own = TokenizerParts::of(tokenizer, origin)?;
        let find = |role: &Role, first: Option<u32>, last: Option<u32>| {
            let hinted = || hints.find(role, tokenizer);
            let found = first.or_else(hinted).or(last);
            found
                .or_else(|| usual(role, tokenizer))
                .ok_or_else(|| role.missing(origin))
        };
        Ok(Self {
            cls: find(&CLS, own.before, None)?,
            sep: find(&SEP, own.after, None)?,
            padding: find(&PADDING, own.labelled(&PADDING, tokenizer), own.padding)?,
            unknown: find(&UNKNOWN, own.labelled(&UNKNOWN, tokenizer), own.unknown)?,
        })
    }

    /// A post-processor that puts the pieces around a sentence, and also lists the other ones. With it, a tokenizer's file
    /// says all of them.
    pub(super) fn recorded(&self, tokenizer: &Tokenizer) -> tokenizers::Result<TemplateProcessing> {
        let roles = [
            (CLS, self.cls),
            (SEP, self.sep),
            (PADDING, self.padding),
            (UNKNOWN, self.unknown),
        ];
        let tokens = roles.map(|(role, id)| {
            let name = tokenizer.id_to_token(id).unwrap_or_default();
            SpecialToken::new(role.label().into(), vec![id], vec![name])
        });
        let tokens: tokenizers::Result<Vec<SpecialToken>> = tokens.into_iter().collect();
        let (cls, sep) = (CLS.label(), SEP.label());
        Ok(TemplateProcessing::builder()
            .try_single(format!("{cls} $A {sep}"))?
            .try_pair(format!("{cls} $A {sep} $B:1 {sep}:1"))?
            .special_tokens(tokens?)
            .build()?)
    }
}

impl Role {
    /// Name in a post-processor that [`SpecialPieces::recorded`] makes.
    fn label(&self) -> &'static str {
        self.keys[0]
    }

    fn missing(&self, origin: &Path) -> Error {
        let (what, names, key) = (self.what, self.names.join(" or "), self.keys[0]);
        Error::encoder(
            origin,
            format!(
                "the vocabulary has no {what} ({names}); if it has another name, give it as {key:?} in tokenizer_config.json"
            ),
        )
    }
}

/// The piece with a usual name; one that the tokenizer treats as special is preferred, because some vocabularies have
/// leftovers of others.
fn usual(role: &Role, tokenizer: &Tokenizer) -> Option<u32> {
    let added = tokenizer.get_added_vocabulary();
    let (special, other): (Vec<&str>, Vec<&str>) =
        (role.names.iter()).partition(|name| added.is_special_token(name));
    let mut names = special.into_iter().chain(other);
    names.find_map(|name| tokenizer.token_to_id(name))
}

/// What a tokenizer itself says about special pieces.
struct TokenizerParts {
    before: Option<u32>,
    after: Option<u32>,
    padding: Option<u32>,
    unknown: Option<u32>,
    post_processor: Value,
}

impl TokenizerParts {
    fn of(tokenizer: &Tokenizer, origin: &Path) -> Result<Self> {
        let (before, after) = around(tokenizer, origin)?;
        let padding = tokenizer.get_padding().map(|padding| padding.pad_id);
        let post_processor = tokenizer.get_post_processor();
        Ok(Self {
            before,
            after,
            padding: padding.filter(|id| tokenizer.id_to_token(*id).is_some()),
            unknown: unknown_id(tokenizer),
            post_processor: serde_json::to_value(post_processor).unwrap_or_default(),
        })
    }

    /// The piece with a role's label in the post-processor.
    fn labelled(&self, role: &Role, tokenizer: &Tokenizer) -> Option<u32> {
        let ids = &self.post_processor["special_tokens"][role.label()]["ids"];
        let id = u32::try_from(ids[0].as_u64()?).ok()?;
        tokenizer.id_to_token(id).map(|_| id)
    }
}

/// The pieces that a tokenizer's post-processor puts before and after a text.
fn around(tokenizer: &Tokenizer, origin: &Path) -> Result<(Option<u32>, Option<u32>)> {
    const TEXT: u32 = u32::MAX;
    let text = Encoding::from_tokens(vec![Token::new(TEXT, "a".into(), (0, 1))], 0);
    let fail = |problem: String| Error::encoder(origin, format!("its post-processor {problem}"));
    let processed = process::catch(|| match tokenizer.get_post_processor() {
        Some(processor) => processor.process(text, None, true),
        None => Ok(text),
    });
    let processed = match processed {
        Ok(processed) => processed.map_err(|problem| fail(format!("fails: {problem}")))?,
        Err(problem) => return Err(fail(format!("fails: {problem}"))),
    };
    let ids = processed.get_ids();
    if let Some(id) = (ids.iter()).find(|id| **id != TEXT && tokenizer.id_to_token(**id).is_none())
    {
        return Err(fail(format!(
            "adds a piece {id}, which the vocabulary does not have"
        )));
    }
    let mut parts = ids.splitn(2, |id| *id == TEXT);
    let mut one = |side: &str| match parts.next().unwrap_or_default() {
        [] => Ok(None),
        [id] => Ok(Some(*id)),
        more => Err(fail(format!(
            "puts {} special pieces {side} a sentence, where encoders have one",
            more.len()
        ))),
    };
    Ok((one("before")?, one("after")?))
}

/// The files beside a tokenizer that name its special pieces; empty where there are none.
#[derive(Debug, Default)]
pub(super) struct Hints(Vec<Value>);

impl Hints {
    /// Hints from parsed files, the best first.
    pub(super) fn new(files: Vec<Value>) -> Self {
        Self(files)
    }

    /// The piece that the files name for a role, if the vocabulary has it.
    fn find(&self, role: &Role, tokenizer: &Tokenizer) -> Option<u32> {
        let keys = role.keys.iter();
        let mut values = keys.flat_map(|key| self.0.iter().map(move |file| &file[*key]));
        // Either a name, or an object with the name and how it is looked for in a text.
        values.find_map(|value| {
            let name = value.as_str().or_else(|| value["content"].as_str());
            tokenizer.token_to_id(name?)
        })
    }
}
