/** A real agent in a box of this machine, with a fake model of its own. */
import { execFileSync } from "node:child_process"
import { randomInt } from "node:crypto"
import { mkdir, readFile } from "node:fs/promises"
import path from "node:path"
import { Effect, Layer, Redacted } from "effect"
import type { Box } from "@slipway/domain/sandbox/SandboxHost"
import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { RepoName } from "@slipway/domain/source/RepoRef"
import type * as AgentRuntimeContract from "@slipway/domain/testing/AgentRuntimeContract"
import * as AgentRuntimeProfiles from "@slipway/adapters/agents/AgentRuntimeProfiles"
import * as Installed from "@slipway/adapters/agents/Installed"
import * as SandboxHostNone from "@slipway/adapters/hosts/none/SandboxHostNone"
import * as FakeModel from "@slipway/adapters/testing/fake-model/FakeModel"
import { running, temporaryFolder } from "../../hosts/Machine.ts"

/** Where `npm run agents:install` put the programs. */
export const agentsFolder = Installed.folderIn(path.resolve(process.env.SLIPWAY_DATA_DIR ?? ".slipway"))

export const layer = Layer.mergeAll(
  AgentRuntimeProfiles.layer({ agentsFolder }),
  Layer.unwrap(Effect.map(temporaryFolder, (directory) => SandboxHostNone.layer({ directory })))
)

const freshId = () =>
  SandboxId.make(`c_${Array.from({ length: 12 }, () => ID_ALPHABET[randomInt(ID_ALPHABET.length)]).join("")}`)

const repositories = [
  { name: RepoName.make("acme/slipway"), folder: "slipway" },
  { name: RepoName.make("acme/docs"), folder: "docs" }
]

/** Claude chooses what it sends by the model's name; the others take any. */
const models: Readonly<Record<string, string>> = { claude: "claude-opus-5-5" }

/** Like a token of the gateway: found nowhere by chance. */
export const freshToken = () => `token-${randomInt(2 ** 47).toString(36)}`

export const sandbox = (profile: string, prepare: (repository: string) => Promise<void> = async () => {}) =>
  Effect.gen(function*() {
    const host = yield* SandboxHost
    const workspace = yield* temporaryFolder
    for (const { folder } of repositories) {
      const repository = path.join(workspace, folder)
      yield* Effect.promise(() => mkdir(repository))
      execFileSync("git", ["init", "--quiet", repository])
    }
    yield* Effect.promise(() => prepare(path.join(workspace, "slipway")))
    const provisioned = yield* Effect.acquireRelease(host.provision({ sandboxId: freshId(), workspace }), ({ sandboxId }) =>
      Effect.orDie(host.stop(sandboxId))
    )
    const started: Array<number> = []
    const box: Box = {
      ...provisioned,
      spawn: (command) => Effect.tap(provisioned.spawn(command), ({ pid }) => Effect.sync(() => started.push(pid)))
    }
    const token = freshToken()
    const model = yield* FakeModel.start({ token, workspace: { path: box.workspace, repositories } })
    const access = {
      baseUrl: model.url,
      token: Redacted.make(token),
      model: models[profile] ?? "fake-model",
      contextTokens: 128_000,
      outputTokens: 8_192
    }
    return {
      box,
      repositories,
      access,
      model,
      started,
      read: (file: string) => Effect.promise(() => readFile(path.join(workspace, "slipway", file), "utf8").catch(() => null)),
      running,
      killAgent: Effect.sync(() => {
        const pid = started.at(-1)
        if (pid !== undefined) process.kill(pid, "SIGKILL")
      }),
      asked: Effect.sync(() =>
        model.requests
          .filter(({ call }) => !call.hidden)
          .map(({ body, call, state }) => ({ model: call.model, effort: call.effort, body: JSON.stringify(body), state }))
      )
    } satisfies AgentRuntimeContract.Sandbox & Record<string, unknown>
  })
