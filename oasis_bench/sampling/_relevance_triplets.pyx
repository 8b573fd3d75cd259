"""Kernel: exact triplets from images and their labels, without a matrix of images x images.

R_II = B B' (JMLR 2010, 5.2.1).  Each rejection ends: a candidate that passes exists (`find_queries`)
and the expected tries are at most as many as there are candidates.  Nothing here is checked: the
face `relevance_triplets.py` does that.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t

cdef extern from "_random.h":
    uint64_t below(uint64_t* state, uint64_t bound) nogil
    double unit(uint64_t* state) nogil


def running_sums(
    double[::1] values,             # INOUT: (nnz,); then sums of those of the same row so far
    const Py_ssize_t[::1] indptr,   # IN: where each row starts
):
    """Sum row by row: a difference of sums over all rows would lose the digits of small ones."""
    cdef Py_ssize_t row, entry
    cdef double total
    with nogil:
        for row in range(indptr.shape[0] - 1):
            total = 0.0
            for entry in range(indptr[row], indptr[row + 1]):
                total += values[entry]
                values[entry] = total


cdef class LabelGraph:
    """Images and labels, an edge where an image has a label; each label has two images or more."""

    cdef const Py_ssize_t[::1] indptr, label_ptr, places
    cdef const int32_t[::1] labels, images
    cdef const double[::1] factor, mass_sums, weight_sums
    cdef double threshold
    cdef bint weighted

    def __init__(
        self,
        const Py_ssize_t[::1] indptr,       # IN: (n + 1,) where the labels of each image start
        const int32_t[::1] labels,          # IN: (nnz,) sorted labels of each image
        const double[::1] factor,           # IN: (nnz,) B
        const double[::1] mass_sums,        # IN: (nnz,) how often to go over each label, summed
        const Py_ssize_t[::1] places,       # IN: (nnz,) where in `images` the image stands
        const Py_ssize_t[::1] label_ptr,    # IN: (n_labels + 1,) where the images of a label start
        const int32_t[::1] images,          # IN: (nnz,) images of each label, of rising weight
        const double[::1] weight_sums,      # IN: (nnz,) their weights, summed
        double threshold,                   # IN: theta
        bint weighted,                      # IN: positives as R_II, else uniform
    ):
        self.indptr, self.labels, self.factor = indptr, labels, factor
        self.mass_sums, self.places = mass_sums, places
        self.label_ptr, self.images, self.weight_sums = label_ptr, images, weight_sums
        self.threshold, self.weighted = threshold, weighted

    def find_queries(
        self,
        bint exact,             # IN: whether a negative must be irrelevant
        uint8_t[::1] usable,    # OUT: (n,) whether the image has a positive and a negative
    ):
        cdef Py_ssize_t image
        with nogil:
            for image in range(usable.shape[0]):
                usable[image] = self.has_positive(image) and (
                    not exact or self.has_negative(image)
                )

    def draw(
        self,
        const Py_ssize_t[::1] queries,  # IN: the images that can be queries
        bint exact,                     # IN: whether a negative must be irrelevant
        uint64_t[::1] state,            # INOUT: xoshiro256++, 4 words
        Py_ssize_t[:, ::1] triplets,    # OUT: (m, 3) query, positive, negative
    ):
        cdef Py_ssize_t m, query
        cdef uint64_t local[4]
        with nogil:
            for m in range(4):
                local[m] = state[m]
            for m in range(triplets.shape[0]):
                query = queries[below(local, queries.shape[0])]
                triplets[m, 0] = query
                triplets[m, 1] = self.draw_positive(query, local)
                triplets[m, 2] = self.draw_negative(query, exact, local)
            for m in range(4):
                state[m] = local[m]

    cdef Py_ssize_t draw_positive(self, Py_ssize_t query, uint64_t* state) noexcept nogil:
        """Go over a label of the query to another image of it, both by weight."""
        cdef Py_ssize_t entry, start, place, last, image, n_shared
        cdef Py_ssize_t last_entry = self.indptr[query + 1] - 1
        cdef double before, after, target, relevance
        while True:
            target = unit(state) * self.mass_sums[last_entry]
            entry = first_above(self.mass_sums, self.indptr[query], last_entry, target)
            place = self.places[entry]
            start = self.label_ptr[self.labels[entry]]
            last = self.label_ptr[self.labels[entry] + 1] - 1
            before = self.weight_sums[place - 1] if place > start else 0.0
            after = self.weight_sums[last] - self.weight_sums[place]
            target = unit(state) * (before + after)
            if place == last or target < before:
                place = first_above(self.weight_sums, start, place - 1, target)
            else:                                           # skip the query itself
                target += self.weight_sums[place] - before
                place = first_above(self.weight_sums, place + 1, last, target)
            image = self.images[place]
            if self.weighted and self.threshold == 0:
                return image
            n_shared = self.common_labels(query, image, &relevance)
            if relevance > self.threshold and (
                self.weighted or n_shared == 1
                or below(state, n_shared) == 0              # as many ways lead to this image
            ):
                return image

    cdef Py_ssize_t draw_negative(
        self, Py_ssize_t query, bint exact, uint64_t* state
    ) noexcept nogil:
        cdef Py_ssize_t image
        while True:
            image = below(state, self.indptr.shape[0] - 2)
            image += image >= query                         # skip the query itself
            if not exact or not self.related(query, image):
                return image

    cdef bint has_positive(self, Py_ssize_t query) noexcept nogil:
        cdef Py_ssize_t entry, place, start
        for entry in range(self.indptr[query], self.indptr[query + 1]):
            start = self.label_ptr[self.labels[entry]]
            place = self.label_ptr[self.labels[entry] + 1] - 1
            while place >= start:                           # the heaviest first
                if place != self.places[entry] and self.related(query, self.images[place]):
                    return True
                place -= 1
        return False

    cdef bint has_negative(self, Py_ssize_t query) noexcept nogil:
        cdef Py_ssize_t entry, step, n_images = self.indptr.shape[0] - 1
        cdef Py_ssize_t n_candidates = 0
        for entry in range(self.indptr[query], self.indptr[query + 1]):
            n_candidates += self.label_ptr[self.labels[entry] + 1]
            n_candidates -= self.label_ptr[self.labels[entry]] + 1
        if n_candidates < n_images - 1:                     # nearly always: no look at the pairs
            return True
        for step in range(1, n_images):
            if not self.related(query, (query + step) % n_images):
                return True
        return False

    cdef bint related(self, Py_ssize_t left, Py_ssize_t right) noexcept nogil:
        cdef double relevance
        self.common_labels(left, right, &relevance)
        return relevance > self.threshold

    cdef Py_ssize_t common_labels(
        self, Py_ssize_t left, Py_ssize_t right, double* relevance
    ) noexcept nogil:
        """Count the labels that two images share, and sum their relevance over them."""
        cdef Py_ssize_t i = self.indptr[left], i_stop = self.indptr[left + 1]
        cdef Py_ssize_t j = self.indptr[right], j_stop = self.indptr[right + 1]
        cdef Py_ssize_t n_shared = 0
        cdef int32_t i_label, j_label
        cdef double total = 0.0
        while i < i_stop and j < j_stop:
            i_label, j_label = self.labels[i], self.labels[j]
            if i_label == j_label:
                n_shared += 1
                total += self.factor[i] * self.factor[j]
            i += i_label <= j_label                         # no branch that is often mispredicted
            j += j_label <= i_label
        relevance[0] = total
        return n_shared


cdef inline Py_ssize_t first_above(
    const double[::1] sums, Py_ssize_t low, Py_ssize_t high, double target
) noexcept nogil:
    """Return the first place from `low` on whose sum is above the target, at most `high`."""
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low
