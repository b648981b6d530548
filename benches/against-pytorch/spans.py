"""Vectors of spans (sentence, first word, last word) from the states of words."""

import torch


def rows(words, sentence, word):
    """The states of given words: [sentences, words, width] to [index..., width]."""
    index = sentence * words.size(1) + word
    return words.flatten(0, 1).index_select(0, index.flatten()).view(*index.shape, -1)


def max_pool(words, sentence, first, last):
    """The maximum over the words of each span, [spans, width]. Shorter spans repeat their last word."""
    longest = int((last - first).max()) + 1
    steps = torch.minimum(first.unsqueeze(1) + torch.arange(longest), last.unsqueeze(1))
    return rows(words, sentence.unsqueeze(1).expand_as(steps), steps).amax(1)


def every(lengths, longest):
    """All spans of up to `longest` words: three vectors, by sentence, first word and length."""
    first = torch.arange(int(lengths.max())).view(1, -1, 1)
    last = first + torch.arange(longest)
    sentence, first, length = (last < lengths.view(-1, 1, 1)).nonzero(as_tuple=True)
    return sentence, first, first + length
