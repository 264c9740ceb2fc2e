"""DistTrain on one machine: the operator's core over processes instead of pods (`disttrain run`)."""
