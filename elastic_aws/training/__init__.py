"""What a training script uses to lose nothing: `start`, `Checkpointer`, `ElasticSampler`. All of it is optional.

```
run = start()
model = run.wrap(model)
sampler = ElasticSampler(len(dataset), global_batch=256, rank=run.rank, world_size=run.world_size)
checkpointer = Checkpointer(run)
position = checkpointer.restore(model, optimizer)
for epoch in range(position.epoch, epochs):
    for batch in loader_of(sampler.epoch(epoch, first=position.sample_in(epoch))):
        ...
        run.step_done(samples=256, epoch=epoch, indices=batch_indices, loss=loss)
        if run.should_stop():
            checkpointer.save(model, optimizer)
            run.close()

Return:
```
"""

from elastic_aws.training.checkpoint import Checkpointer
from elastic_aws.training.position import Position
from elastic_aws.training.run import Run, start
from elastic_aws.training.sampler import ElasticSampler

__all__ = ["Checkpointer", "ElasticSampler", "Position", "Run", "start"]
