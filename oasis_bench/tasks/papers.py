"""The papers that tasks and splits cite."""

CHECHIK = (
    "Chechik, Sharma, Shalit & Bengio (2010), Large Scale Online Learning of Image Similarity "
    "Through Ranking, JMLR 11, section"
)
OH_SONG = (
    "Oh Song, Xiang, Jegelka & Savarese (2016), Deep Metric Learning via Lifted Structured "
    "Feature Embedding, CVPR"
)
MUSGRAVE = "Musgrave, Belongie & Lim (2020), A Metric Learning Reality Check, ECCV"
WANG = "Wang et al. (2014), Learning Fine-grained Image Similarity with Deep Ranking, CVPR, section"
HUANG = (
    "Huang, Ramesh, Berg & Learned-Miller (2007), Labeled Faces in the Wild, University of "
    "Massachusetts, technical report 07-49"
)
