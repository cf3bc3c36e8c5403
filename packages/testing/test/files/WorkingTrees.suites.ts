import { MemoryDisk, workspaceOf } from "@slipway/domain/memory/files/MemoryDisk"
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import * as WorkingTreesMemory from "@slipway/domain/memory/files/WorkingTreesMemory"
import * as AgentRuntimeMemory from "@slipway/domain/memory/sandbox/AgentRuntimeMemory"
import * as SandboxHostMemory from "@slipway/domain/memory/sandbox/SandboxHostMemory"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { trees } from "@slipway/testing/contracts/files/WorkingTreesContract"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export const Memory = Layer.mergeAll(
  WorkingTreesMemory.layer,
  SandboxHostMemory.layer,
  AgentRuntimeMemory.layer,
  SourceHostMemory.layer
).pipe(Layer.provideMerge(Layer.merge(MemoryDisk.layer, MemoryRepositories.layer)))

const text = (content: string | Uint8Array) =>
  typeof content === "string" ? content : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content)
const texts = (files: Readonly<Record<string, string | Uint8Array | null>>) =>
  Object.fromEntries(Object.entries(files).map(([path, content]) => [path, content === null ? null : text(content)]))

let repositories = 0

export const suites = () =>
  trees("memory", Memory, {
    source: Effect.fnUntraced(function*(files) {
      const { add } = yield* MemoryRepositories
      const fullName = RepoName.make(`acme/source-${++repositories}`)
      const repository = add(fullName, {})
      if (files === undefined) repository.branches.clear()
      else repository.commit("main", texts(files))
      return {
        remote: yield* (yield* SourceHost).remote(fullName, "write"),
        commit: (branch, changes) => Effect.sync(() => repository.commit(branch, texts(changes))),
        tag: (name, sha) => Effect.sync(() => void repository.tags.set(name, sha)),
        deleteBranch: (branch) => Effect.sync(() => void repository.branches.delete(branch)),
        setBranch: (branch, sha) => Effect.sync(() => void repository.branches.set(branch, sha)),
        history: (ref) =>
          Effect.sync(() => {
            const found: Array<string> = []
            for (let sha = repository.branches.get(ref) ?? ref; sha !== ""; sha = repository.commits.get(sha)?.parents[0] ?? "") {
              found.push(sha)
            }
            // The commit of an empty repository belongs to no author.
            return found.slice(0, -1)
          }),
        tip: (branch) => Effect.sync(() => repository.branches.get(branch) ?? null),
        files: (sha) =>
          Effect.sync(() => {
            const executables = repository.executablesOf(sha)
            const marked = (path: string, content: string) => executables.has(path) ? `*${content}` : content
            return Object.fromEntries(Object.entries(repository.filesOf(sha)).map(([path, content]) => [path, marked(path, content)]))
          })
      }
    }),
    workspace: (sandboxId) => Effect.succeed(workspaceOf(sandboxId)),
    agent: {
      write: (path, content) => Effect.map(MemoryDisk, ({ files }) => void files.set(path, text(content))),
      append: (path, content) => Effect.map(MemoryDisk, ({ files }) => void files.set(path, (files.get(path) ?? "") + content)),
      truncate: (path) => Effect.map(MemoryDisk, ({ files }) => void files.set(path, "")),
      makeExecutable: (path) => Effect.map(MemoryDisk, ({ executables }) => void executables.add(path)),
      remove: (path) =>
        Effect.map(MemoryDisk, ({ files }) => {
          for (const file of files.keys()) if (file === path || file.startsWith(`${path}/`)) files.delete(file)
        }),
      rename: (from, to) =>
        Effect.map(MemoryDisk, ({ files }) => {
          files.set(to, files.get(from) ?? "")
          files.delete(from)
        }),
      initRepository: (path) => Effect.map(MemoryDisk, ({ files }) => void files.set(`${path}/.git/HEAD`, "ref: refs/heads/main\n"))
    }
  })
