"""mesh=: rank and world size along the data-parallel dimensions of a DeviceMesh."""

import pickle

import pytest
import torch.distributed
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh

import fastload
from fastload import FastParquetDataset
from support.sample_files import ids_of, write_sample

SHAPES = [
    ((2, 2), ("dp", "tp"), None, [0, 0, 1, 1]),
    ((2, 2), ("pp", "dp_shard"), None, [0, 1, 0, 1]),
    ((2, 2), ("dp_replicate", "dp_shard"), None, [0, 1, 2, 3]),
    ((2, 1, 2), ("replicate", "shard", "cp"), None, [0, 0, 1, 1]),
    ((2, 2), ("pipeline", "tensor_parallel"), None, [0, 0, 0, 0]),
    ((2, 2), ("dp", "ep"), ["ep", "dp"], [0, 1, 2, 3]),
    ((2, 2), ("outer", "inner"), "inner", [0, 1, 0, 1]),
    ((4,), None, None, [0, 1, 2, 3]),
]


def made(path, mesh):
    return FastParquetDataset(
        path, columns=["id"], batch_size=10, threads=0, shuffle=True, uneven="keep", mesh=mesh
    )


def run(process, directory, path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=process, world_size=4
    )
    results = []
    for shape, names, given, _ in SHAPES:
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        with made(path, mesh if given is None else (mesh, given)) as dataset:
            results.append((len(dataset), ids_of(dataset)))
            assert ids_of(pickle.loads(pickle.dumps(dataset)))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    with made(path, mesh["dp"]) as dataset:
        assert ids_of(dataset) == results[0][1]
    with made(path, mesh["tp"]) as dataset:
        assert len(ids_of(dataset)) == 203
    with fastload.mix(
        {"a": FastParquetDataset(path, batch_size=10, threads=0, mesh=mesh)}
    ) as mixed:
        assert len(mixed) == 11
    refused = [
        (init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "ep")), "got \\['ep'\\]"),
        (init_device_mesh("cpu", (2, 2)), "got one without names"),
        ((mesh, ["dp", "xp"]), r"Expected names out of \['dp', 'tp'\], each once"),
        ((mesh, ["dp", "dp"]), "each once"),
    ]
    for argument, message in refused:
        with pytest.raises(ValueError, match=message):
            made(path, argument)
    with pytest.raises(ValueError, match="Expected mesh, or rank and world_size, got both"):
        FastParquetDataset(path, mesh=mesh, rank=0, world_size=2)
    with open(f"{directory}/{process}.pickle", "wb") as file:
        pickle.dump(results, file)
    torch.distributed.destroy_process_group()


def test_ranks_of_meshes(tmp_path):
    path = write_sample(tmp_path / "a.parquet", 203, 30)
    torch.multiprocessing.spawn(run, (str(tmp_path), path), nprocs=4)
    by_process = [pickle.loads((tmp_path / f"{n}.pickle").read_bytes()) for n in range(4)]
    for number, (_, _, _, ranks) in enumerate(SHAPES):
        world = max(ranks) + 1
        expected = []
        for rank in range(world):
            with FastParquetDataset(
                path,
                columns=["id"],
                batch_size=10,
                threads=0,
                shuffle=True,
                uneven="keep",
                rank=rank,
                world_size=world,
            ) as dataset:
                expected.append((len(dataset), ids_of(dataset)))
        assert [results[number] for results in by_process] == [expected[rank] for rank in ranks]


@pytest.mark.parametrize("mesh", [3, "dp", (1, 2), ["dp"]])
def test_no_mesh(tmp_path, mesh):
    path = write_sample(tmp_path / "a.parquet", 10)
    with pytest.raises(TypeError, match="Expected mesh as a DeviceMesh"):
        FastParquetDataset(path, mesh=mesh)
