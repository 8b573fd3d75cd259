"""Has the test labels and the clock: draws items, follows the learner's side, evaluates, keeps."""
