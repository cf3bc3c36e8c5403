import { MemoryRepositories } from "@slipway/domain/source/MemoryRepositories"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { SourceHost } from "@slipway/domain/source/SourceHost"
import { suite } from "@slipway/domain/testing/SourceHostContract"
import { Effect, Layer } from "effect"

let repositories = 0

suite("memory", SourceHost.layerMemory.pipe(Layer.provideMerge(MemoryRepositories.layer)), {
  repository: (files) =>
    Effect.map(MemoryRepositories, ({ add }) => {
      const fullName = RepoName.make(`Acme/Shop-${++repositories}`)
      const repository = add(fullName, {}, "trunk")
      repository.commit("trunk", files)
      return {
        fullName,
        commit: (branch, changes) => Effect.sync(() => repository.commit(branch, changes)),
        merge: (head, base) => Effect.sync(() => void repository.merge(head, base)),
        deleteBranch: (branch) => Effect.sync(() => void repository.branches.delete(branch))
      }
    })
})
