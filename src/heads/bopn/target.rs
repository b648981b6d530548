//! Offset labels, and the grid of them for gold entities.

use super::config::{Config, Labelling, Mode};
use crate::encoder::shapes::BatchShape;
use crate::text::{Labels, Sentence};

/// The label of a cell: its offset from the nearest entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// Out of range: no entity is within S words.
    Out,
    /// The cell starts this many words after the entity; their ends are the same.
    Start(i32),
    /// The cell ends this many words after the entity; their starts are the same.
    End(i32),
    /// The cell is the entity.
    Centre,
}

impl Offset {
    /// The absolute value of the offset.
    pub fn distance(self) -> i32 {
        match self {
            Self::Start(offset) | Self::End(offset) => offset.abs(),
            Self::Centre => 0,
            Self::Out => i32::MAX,
        }
    }
}

/// The numbering of offset labels: 0 is out of range, then come −S … S, each start before end, with the centre in the
/// middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetScheme {
    /// Largest offset S.
    pub max_offset: i32,
    start: bool,
    end: bool,
}

impl OffsetScheme {
    /// The labels for offsets up to `max_offset` at the boundaries selected by `mode`.
    pub fn new(max_offset: usize, mode: Mode) -> Self {
        Self {
            max_offset: if mode == Mode::None {
                0
            } else {
                max_offset as i32
            },
            start: matches!(mode, Mode::Both | Mode::Start),
            end: matches!(mode, Mode::Both | Mode::End),
        }
    }

    /// The labels of a head with these settings.
    pub fn of(config: &Config) -> Self {
        Self::new(config.offsets, config.mode)
    }

    /// The number of labels per offset: 2 if both boundaries have offsets.
    fn kinds(&self) -> i32 {
        i32::from(self.start) + i32::from(self.end)
    }

    /// Number of labels: 4S + 2, 2S + 2 or 2.
    pub fn len(&self) -> usize {
        (2 * self.max_offset * self.kinds() + 2) as usize
    }

    /// Always false: there is always a centre.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The index of a label; `None` if the scheme has no such label.
    pub fn id(&self, offset: Offset) -> Option<usize> {
        let index = |offset: i32, kind: i32| {
            let before = (offset + self.max_offset) * self.kinds();
            // The centre is one label, however many boundaries have offsets.
            let centre = if offset > 0 { 1 - self.kinds() } else { 0 };
            (1 + before + centre + kind) as usize
        };
        let within = |offset: i32| offset != 0 && offset.abs() <= self.max_offset;
        match offset {
            Offset::Out => Some(0),
            Offset::Centre => Some((1 + self.max_offset * self.kinds()) as usize),
            Offset::Start(offset) => (self.start && within(offset)).then(|| index(offset, 0)),
            Offset::End(offset) => {
                (self.end && within(offset)).then(|| index(offset, i32::from(self.start)))
            }
        }
    }

    /// All labels in order.
    pub fn list(&self) -> Vec<Offset> {
        let mut list = vec![Offset::Out; self.len()];
        let offsets =
            (-self.max_offset..=self.max_offset).flat_map(|k| [Offset::Start(k), Offset::End(k)]);
        for offset in offsets.chain([Offset::Centre]) {
            if let Some(id) = self.id(offset) {
                list[id] = offset;
            }
        }
        list
    }

    /// The label of a span relative to an entity, ends inclusive; `None` if the entity is more than S words away.
    pub fn label(&self, labelling: Labelling, span: [i32; 2], entity: [i32; 2]) -> Option<Offset> {
        let [start, end] = [span[0] - entity[0], span[1] - entity[1]];
        let far = start.abs().max(end.abs()) > self.max_offset;
        let label = match (start, end) {
            (0, 0) => return Some(Offset::Centre),
            _ if far => return None,
            (start, 0) => Offset::Start(start),
            (0, end) => Offset::End(end),
            _ if labelling == Labelling::Shared => return None,
            (start, end) if self.end && (end.abs() < start.abs() || !self.start) => {
                Offset::End(end)
            }
            (start, _) => Offset::Start(start),
        };
        self.id(label).map(|_| label)
    }
}

/// The gold label grids of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gold {
    /// The label of each cell: [batch, types, words, words]; 0 on padding.
    pub labels: Vec<i32>,
    /// The number of words of the longest sentence, at least 1.
    pub words: usize,
    /// With a `joint_weight`, the class of each span: [batch, words, words]; 0 is none, 1 + k is type k.
    pub classes: Option<Vec<i32>>,
}

impl Gold {
    /// The grids of sentences, padded to the longest.
    pub fn new(config: &Config, labels: &Labels, sentences: &[&Sentence]) -> Self {
        let scheme = OffsetScheme::of(config);
        let words = sentences.iter().map(|s| s.len()).max().unwrap_or(0).max(1);
        let plane = words * words;
        let mut all = vec![0; sentences.len() * labels.len() * plane];
        for (index, sentence) in sentences.iter().enumerate() {
            let mut entities = vec![Vec::new(); labels.len()];
            for entity in config.overlaps.entities(sentence).iter() {
                if let Some(label) = labels.index(&entity.label) {
                    let (span, label) = (entity.span, config.index_of(label, labels.len()));
                    entities[label].push([span.start as i32, span.end as i32 - 1]);
                }
            }
            for (label, entities) in entities.iter_mut().enumerate() {
                // Row-major, as the authors' code lists its centres.
                entities.sort_unstable();
                entities.dedup();
                let at = (index * labels.len() + label) * plane;
                let mut grid = LabelPlane {
                    labels: &mut all[at..at + plane],
                    words,
                    length: sentence.len() as i32,
                };
                grid.fill(&scheme, config.labels, config.mirror, entities);
            }
        }
        let classes = (config.has_joint_types()).then(|| {
            let centre = scheme.id(Offset::Centre).unwrap_or(0) as i32;
            span_classes(&all, centre, labels.len(), plane)
        });
        Self {
            labels: all,
            words,
            classes,
        }
    }

    /// Padded to a number of sentences and words.
    pub fn pad(self, types: usize, shape: &BatchShape) -> Self {
        let words = self.words.max(shape.words);
        Self {
            labels: pad_planes(&self.labels, self.words, words, shape.sentences * types),
            classes: (self.classes.as_ref())
                .map(|classes| pad_planes(classes, self.words, words, shape.sentences)),
            words,
        }
    }
}

/// Planes of `words²` cells as at least `count` planes of `wider²` cells, 0 where they are new.
fn pad_planes(cells: &[i32], words: usize, wider: usize, count: usize) -> Vec<i32> {
    let count = count.max(cells.len() / (words * words));
    let mut padded = vec![0; count * wider * wider];
    for (index, row) in cells.chunks(words).enumerate() {
        let (plane, start) = (index / words, index % words);
        let at = (plane * wider + start) * wider;
        padded[at..at + row.len()].copy_from_slice(row);
    }
    padded
}

/// The class of each cell of [batch, words, words]: the first type of which it is a centre, or none.
fn span_classes(labels: &[i32], centre: i32, types: usize, plane: usize) -> Vec<i32> {
    let sentences = labels.chunks(types.max(1) * plane);
    sentences
        .flat_map(|grids| {
            let mut classes = vec![0; plane];
            for (label, grid) in grids.chunks(plane).enumerate().rev() {
                for (class, found) in classes.iter_mut().zip(grid) {
                    if *found == centre {
                        *class = 1 + label as i32;
                    }
                }
            }
            classes
        })
        .collect()
}

/// The plane of one type in the grid of one sentence.
struct LabelPlane<'a> {
    labels: &'a mut [i32],
    words: usize,
    length: i32,
}

impl LabelPlane<'_> {
    /// Labels the spans around each entity. A span near two entities gets the label of the nearer one, of equally near ones
    /// that of the first.
    fn fill(
        &mut self,
        scheme: &OffsetScheme,
        labelling: Labelling,
        mirror: bool,
        entities: &[[i32; 2]],
    ) {
        let mut distances = vec![i32::MAX; self.labels.len()];
        for entity in entities {
            for (span, offset, distance) in labelled_spans(scheme, labelling, *entity) {
                let [start, end] = span;
                if start < 0 || start > end || end >= self.length {
                    continue;
                }
                let cell = start as usize * self.words + end as usize;
                if distance < distances[cell] {
                    distances[cell] = distance;
                    self.labels[cell] = scheme.id(offset).unwrap_or(0) as i32;
                }
            }
        }
        if mirror {
            for start in 0..self.length as usize {
                for end in start + 1..self.length as usize {
                    self.labels[end * self.words + start] = self.labels[start * self.words + end];
                }
            }
        }
    }
}

/// The spans that are labelled relative to an entity, with their labels and distances.
fn labelled_spans(
    scheme: &OffsetScheme,
    labelling: Labelling,
    [start, end]: [i32; 2],
) -> Vec<([i32; 2], Offset, i32)> {
    let most = scheme.max_offset;
    let mut spans = Vec::new();
    for rows in -most..=most {
        for columns in -most..=most {
            let span = [start + rows, end + columns];
            if let Some(offset) = scheme.label(labelling, span, [start, end]) {
                // Of two equally near entities, the one that shares a boundary is the one that the label points to.
                let shares_none = i32::from(rows != 0 && columns != 0);
                spans.push((span, offset, 2 * (rows.abs() + columns.abs()) + shares_none));
            }
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings::{Preset, Settings};
    use crate::text::Entity;

    fn grid(config: &Config, words: usize, entities: &[(usize, usize)]) -> Vec<Vec<i32>> {
        let mut sentence = Sentence::from_words((0..words).map(|word| word.to_string()));
        sentence.entities = entities
            .iter()
            .map(|(start, end)| Entity::new(*start, *end, "X"))
            .collect();
        let gold = Gold::new(config, &Labels::new(["X"]), &[&sentence]);
        gold.labels.chunks(words).map(<[i32]>::to_vec).collect()
    }

    #[test]
    fn labels_are_numbered_from_the_farthest_before_to_the_farthest_after() {
        for (mode, reach, count) in [
            (Mode::Both, 3, 14),
            (Mode::Start, 3, 8),
            (Mode::End, 2, 6),
            (Mode::Both, 0, 2),
            (Mode::None, 3, 2),
        ] {
            let scheme = OffsetScheme::new(reach, mode);
            assert_eq!(scheme.len(), count);
            for (id, offset) in scheme.list().into_iter().enumerate() {
                assert_eq!(scheme.id(offset), Some(id), "{mode:?} {offset:?}");
            }
        }
        let scheme = OffsetScheme::new(1, Mode::Both);
        let expected = [
            Offset::Out,
            Offset::Start(-1),
            Offset::End(-1),
            Offset::Centre,
            Offset::Start(1),
            Offset::End(1),
        ];
        assert_eq!(scheme.list(), expected);
    }

    #[test]
    fn the_paper_also_labels_spans_that_share_no_boundary() {
        let config = Config {
            offsets: 1,
            ..Config::of(Preset::Paper)
        };
        // The entity is words 1 and 2: s:-1 is 1, e:-1 is 2, the centre 3, s:1 is 4, e:1 is 5.
        let expected = [
            [0, 1, 1, 1, 0],
            [0, 2, 3, 5, 0],
            [0, 0, 4, 4, 0],
            [0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0],
        ];
        assert_eq!(grid(&config, 5, &[(1, 3)]), expected);
        let shared = Config {
            offsets: 1,
            ..Config::of(Preset::Released)
        };
        let expected = [
            [0, 0, 1, 0, 0],
            [0, 2, 3, 5, 0],
            [1, 3, 4, 0, 0],
            [0, 5, 0, 0, 0],
            [0, 0, 0, 0, 0],
        ];
        assert_eq!(grid(&shared, 5, &[(1, 3)]), expected);
    }

    #[test]
    fn without_offsets_only_entities_are_labelled() {
        for config in [
            Config {
                offsets: 0,
                ..Config::of(Preset::Paper)
            },
            Config {
                mode: Mode::None,
                ..Config::of(Preset::Paper)
            },
        ] {
            let labels = grid(&config, 6, &[(1, 3), (2, 6)]).concat();
            assert_eq!(labels.iter().sum::<i32>(), 2);
            assert_eq!([labels[8], labels[17]], [1, 1]);
        }
    }

    #[test]
    fn every_entity_of_a_long_sentence_is_a_centre() {
        let mut sentence = Sentence::from_words((0..200).map(|word| word.to_string()));
        sentence.entities = (0..150)
            .map(|word| Entity::new(word, word + 1 + word % 40, format!("{}", word % 7)))
            .collect();
        let labels = Labels::new((0..7).map(|label| label.to_string()));
        let start = std::time::Instant::now();
        for preset in [Preset::Paper, Preset::Released] {
            let config = Config::of(preset);
            let centre = OffsetScheme::of(&config).id(Offset::Centre).unwrap() as i32;
            let gold = Gold::new(&config, &labels, &[&sentence]);
            let mut centres = Vec::new();
            for (index, label) in gold.labels.iter().enumerate() {
                let (plane, cell) = (index / (200 * 200), index % (200 * 200));
                if *label == centre && cell / 200 <= cell % 200 {
                    centres.push((plane, cell / 200, cell % 200 + 1));
                }
            }
            let entity = |entity: &Entity| {
                let label = labels.index(&entity.label).unwrap();
                (label, entity.span.start, entity.span.end)
            };
            let mut expected: Vec<_> = sentence.entities.iter().map(entity).collect();
            expected.sort_unstable();
            assert_eq!(centres, expected, "{preset:?}");
        }
        assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    }
}
