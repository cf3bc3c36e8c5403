/**
 * `slipway doctor`: checks the requirements of agents on this machine and at the source host, without starting the service.
 */
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { MAX_CHECKPOINT_BYTES } from "@slipway/domain/sandbox/ports/Checkpoints"
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import * as CheckpointFolder from "@slipway/postgres/checkpoints/CheckpointFolder"
import * as Database from "@slipway/postgres/Database"
import { SchemaRefused } from "@slipway/postgres/Migrations"
import { DatabaseSchema } from "@slipway/postgres/options/DatabaseSchema"
import * as SecretsKey from "@slipway/postgres/secret-store/SecretsKey"
import { DateTime, Duration, Effect, Layer, References, Schema } from "effect"
import { Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { statfs } from "node:fs/promises"
import path from "node:path"
import * as CommitSigning from "../../service/CommitSigning.ts"
import * as CheckHost from "../../service/hosts/CheckHost.ts"
import * as GitProgram from "../../service/machine/GitProgram.ts"
import * as Isolation from "../../service/machine/Isolation.ts"
import * as MachinesInCluster from "../../service/machine/MachinesInCluster.ts"
import * as Toolchains from "../../service/machine/Toolchains.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import * as SignIn from "../../service/SignIn.ts"
import * as BlobPlace from "../../service/storage/BlobPlace.ts"
import * as SecretsKeySource from "../../service/storage/SecretsKeySource.ts"
import * as GitHub from "../../settings/GitHub.ts"
import * as IsolationSettings from "../../settings/Isolation.ts"
import * as Publishing from "../../settings/Publishing.ts"
import * as Settings from "../../settings/Settings.ts"
import * as SourceHosts from "../../settings/SourceHosts.ts"
import * as Storage from "../../settings/Storage.ts"
import * as Server from "../client/server/Server.ts"
import { columns, json, MARKS, print } from "../terminal/Output.ts"
import * as ModelReport from "./ModelReport.ts"
import * as ProxyFinding from "./ProxyFinding.ts"

/** Agents cannot run on this machine as it is. */
class NotReady extends Schema.TaggedError<NotReady>()("NotReady", { missing: Schema.Array(Schema.String) }) {
  override get message() {
    return `agents cannot run here: ${this.missing.join(", ")}. The remedies are above.`
  }
}

export interface Finding {
  readonly what: string
  /** `missing`: agents cannot run without it. `note`: useful to know. */
  readonly state: "ok" | "note" | "missing"
  readonly detail: string
}

/** With less, a checkout or a build soon fails. */
const SPARE_DISK_BYTES = 5 * 2 ** 30

const git = Effect.match(GitProgram.version, {
  onFailure: ({ detail }): Finding => ({ what: "git", state: "missing", detail }),
  onSuccess: (detail): Finding => ({ what: "git", state: "ok", detail })
})

/** `shown`: the data folder in displayable form. */
const postgres = ({ dataDir, databaseSchema, databaseUrl, postgresAccount }: Settings.Settings, shown: string) => {
  const options = { dataDir, ...(postgresAccount === null ? {} : { account: postgresAccount }) }
  const database: Layer.Layer<SqlClient.SqlClient, unknown> = databaseUrl === null
    ? Layer.unwrap(Effect.map(EmbeddedPostgres, ({ connection }) => Database.layer(connection))).pipe(
      Layer.provide(EmbeddedPostgres.layerConnectOrStart(options))
    )
    : Layer.unwrap(Effect.as(Database.reach(databaseUrl, Duration.zero), Database.layer({ url: databaseUrl })))
  const version = Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly version: string; readonly mayCreate: boolean }>`
      SELECT current_setting('server_version') AS version,
        has_database_privilege(current_database(), 'CREATE') OR to_regnamespace(${databaseSchema}) IS NOT NULL AS "mayCreate"`
    if (row?.mayCreate !== true) return yield* new SchemaRefused({ schema: databaseSchema, option: Storage.settings.databaseSchema.name })
    return row.version
  })
  return version.pipe(
    Effect.provide(database.pipe(Layer.provide(Layer.succeed(DatabaseSchema, databaseSchema)))),
    Effect.map((version): Finding => ({
      what: "Postgres",
      state: "ok",
      detail: `${version}, ${databaseUrl === null ? `embedded, in ${shown}` : Storage.settings.databaseUrl.name}, schema ${databaseSchema}`
    })),
    Effect.catch((error) =>
      Effect.succeed<Finding>({ what: "Postgres", state: "missing", detail: error instanceof Error ? error.message : String(error) })
    )
  )
}

const disk = ({ dataDir }: Settings.Settings) =>
  Effect.promise(async (): Promise<Finding> => {
    // The first start makes the folder.
    for (let folder = dataDir;; folder = path.dirname(folder)) {
      const found = await statfs(folder).catch(() => undefined)
      if (found === undefined && folder !== path.dirname(folder)) continue
      const free = found === undefined ? 0 : found.bavail * found.bsize
      return {
        what: "disk",
        state: free < SPARE_DISK_BYTES ? "note" : "ok",
        detail: `${Math.floor(free / 2 ** 30)} GiB free for ${dataDir}`
      }
    }
  })

/** Two of the largest checkpoints, so that one can be written while others arrive. */
const SPARE_CHECKPOINT_BYTES = 2 * MAX_CHECKPOINT_BYTES

/** The service works without it, but its data does not outlive this machine. */
const checkpoints = ({ blobs, checkpoints: { folder, writes } }: Settings.Settings): Effect.Effect<Finding> => {
  const what = "checkpoints"
  const first = writes === "blobs" ? `with the files, ${BlobPlace.nameOf({ blobs })}` : "in the database"
  if (folder === null) return Effect.succeed({ what, state: "ok", detail: first })
  const name = writes === "folder" ? `in ${folder}` : `${first}, earlier ones in ${folder}`
  return Effect.match(Effect.tryPromise({ try: () => CheckpointFolder.probe(folder), catch: CheckpointFolder.adviceFor }), {
    onFailure: (advice) => ({ what, state: "missing", detail: `${name}: ${advice}` }),
    onSuccess: (free) =>
      free < SPARE_CHECKPOINT_BYTES
        ? { what, state: "note", detail: `${name}: only ${Math.floor(free / 2 ** 20)} MiB free. Make room on its disk` }
        : { what, state: "ok", detail: `${name}, ${Math.floor(free / 2 ** 30)} GiB free` }
  })
}

/** In the database they need nothing more. A blob is stored, read and removed. */
const blobs = (settings: Settings.Settings): Effect.Effect<Finding> => {
  const what = "files"
  const name = BlobPlace.nameOf(settings)
  const layer = BlobPlace.layer(settings)
  if (layer === undefined) return Effect.succeed({ what, state: "ok", detail: name })
  return Effect.flatMap(Blobs, BlobPlace.problemOf).pipe(
    Effect.provide(layer),
    // The finding says it.
    Effect.provideService(References.MinimumLogLevel, "None"),
    Effect.map((problem): Finding => ({ what, state: problem === null ? "ok" : "missing", detail: problem ?? name }))
  )
}

/** Runs the command, as a start does. The key in the data folder is made by the first start. */
const secretsKey = (settings: Settings.Settings): Effect.Effect<Finding> => {
  const what = "secrets key"
  const place = SecretsKeySource.elsewhere(settings) ?? "secrets.key of the data folder"
  return Effect.match(SecretsKey.count(SecretsKeySource.sourceOf(settings)), {
    onFailure: ({ message }): Finding => ({ what, state: "missing", detail: message }),
    onSuccess: (count): Finding => {
      if (count !== null) return { what, state: "ok", detail: `${count === 1 ? "one key" : `${count} keys`}, ${place}` }
      return settings.secretsKeyFile === null && settings.databaseUrl === null
        ? { what, state: "ok", detail: `${place}: the first start makes it` }
        : { what, state: "note", detail: `${place} is not there. Secrets of repositories need it (docs/operating/secrets.md)` }
    }
  })
}

const isolation = (settings: Settings.Settings) =>
  Effect.scoped(Effect.map(Isolation.choose({ ...settings, role: "all" }), (chosen): ReadonlyArray<Finding> => {
    const { kind, problem, report } = chosen
    if (kind === "none") {
      return [problem === null
        ? {
          what: "isolation",
          state: "note",
          detail: `${IsolationSettings.settings.isolation.name}=none: agents run as this user, without isolation`
        }
        : { what: "isolation", state: "missing", detail: problem }]
    }
    return [
      { what: "isolation", state: "ok", detail: kind },
      ...(report ?? []).map(({ detail, name, state }): Finding => ({
        what: `box: ${name}`,
        state: state === "in force" ? "ok" : "note",
        detail: state === "in force" ? detail : `not in force. ${detail}`
      })),
      { what: "caches of setups", state: "ok", detail: Isolation.wayOfCaches(chosen) },
      { what: "box: way out", state: "ok", detail: ["the model gateway", ...settings.egressAllow].join(", ") }
    ]
  }))

/** Checks only what is used. */
const kubernetes = (settings: Settings.Settings): Effect.Effect<ReadonlyArray<Finding>> =>
  settings.isolation === "kubernetes" ? MachinesInCluster.examine(settings) : Effect.succeed([])

const toolchains = (settings: Settings.Settings) =>
  Effect.matchEffect(Toolchains.check(settings), {
    onFailure: ({ message }) => Effect.succeed<ReadonlyArray<Finding>>([{ what: "toolchains", state: "missing", detail: message }]),
    onSuccess: () =>
      Effect.map(Toolchains.look(settings), (found) =>
        found.map(({ detail, folder, problem }): Finding => ({
          what: `toolchain ${folder}`,
          state: problem === null ? "ok" : "note",
          detail: problem === null ? `programs in ${detail}` : problem
        })))
  })

/** Addresses that the service requests. */
const destinationsOf = ({ oidc, signIn, sourceHosts, traces }: Settings.Settings): ReadonlyArray<string> =>
  [...sourceHosts.list.flatMap((host) => SourceHosts.addressOf(host) ?? []), oidc?.issuer, signIn?.apiUrl, traces?.url,
    "https://registry.npmjs.org"].filter((url) => url !== undefined)

/** Days after which there is surely a newer version of an agent: they appear every few days. */
const OLD_PIN_DAYS = 60

/** The advice about a version that was pinned on that day, as `2026-11-30`; `null`: none yet. */
export const adviceOfPin = (pinnedOn: string, now: DateTime.Utc): string | null => {
  const days = Math.floor((now.epochMilliseconds - Date.parse(pinnedOn)) / 86_400_000)
  return days <= OLD_PIN_DAYS
    ? null
    : `pinned on ${pinnedOn}, ${days} days ago. Update Slipway, which has newer agents, and run slipway agents install`
}

/** The finding about an agent. */
export const findingOf = (
  name: string,
  program: { readonly pinnedOn: string } | null,
  installed: Installed.Installed,
  now: DateTime.Utc
): Finding => {
  const what = `agent ${name}`
  if (installed.state !== "ready") return { what, state: "note", detail: installed.reason }
  const advice = program === null ? null : adviceOfPin(program.pinnedOn, now)
  const version = installed.version ?? "a part of Slipway"
  return advice === null ? { what, state: "ok", detail: version } : { what, state: "note", detail: `${version}, ${advice}` }
}

const agents = ({ dataDir }: Settings.Settings) =>
  Effect.flatMap(DateTime.now, (now) =>
    Effect.forEach(
      Object.entries(profiles),
      ([name, profile]) =>
        Effect.map(
          Installed.inspect(name, profile, Installed.folderIn(dataDir)),
          (installed) => findingOf(name, profile.program, installed, now)
        )
    ))

/** One line a model, with every obstacle. */
const models = (given: Settings.Settings) =>
  Effect.match(ModelReport.find(given), {
    onFailure: (error): ReadonlyArray<Finding> => [{ what: "models", state: "note", detail: error.message }],
    onSuccess: ({ isRunning, models }) =>
      models.map((one): Finding => ({
        what: `model ${one.id}`,
        state: one.problems.length === 0 ? "ok" : "note",
        detail: ModelReport.stateOf(one, isRunning ? "usable" : "usable once the service runs")
      }))
  })

/** The findings of the service at an address, over its API, by its own environment. */
const ask = Effect.fn("Doctor.ask")(function*(url: string) {
  const { isolation, models, url: server } = yield* ModelReport.ask(url)
  return [
    { what: "server", state: "ok", detail: `${server} answers. It judged its models itself` },
    { what: "isolation", state: isolation === null ? "note" : "ok", detail: isolation ?? "workers of other processes choose it" },
    ...models.map((one): Finding => ({
      what: `model ${one.id}`,
      state: one.problems.length === 0 ? "ok" : "note",
      detail: ModelReport.stateOf(one)
    }))
  ] satisfies ReadonlyArray<Finding>
})

/** A line for each host. */
const sourceHosts = ({ sourceHosts: { file, list } }: Settings.Settings): Effect.Effect<ReadonlyArray<Finding>> =>
  Effect.forEach(list, (host) =>
    Effect.map(CheckHost.check(host, file !== null, null), (checked): Finding => ({
      what: file === null ? "source host" : `source host ${host.name}`,
      ...checked
    })), { concurrency: "unbounded" })

const signInAt = (
  check: Effect.Effect<{ readonly detail: string; readonly retryable: boolean } | null>,
  detail: string
): Effect.Effect<Finding> => {
  const what = "sign-in"
  return Effect.map(check, (problem): Finding =>
    problem === null
      ? { what, state: "ok", detail }
      : { what, state: problem.retryable ? "note" : "missing", detail: problem.detail })
}

/** Empty where it is not configured: few services have it. */
const oidc = ({ host, oidc, port, publicUrl }: Settings.Settings): Effect.Effect<ReadonlyArray<Finding>> => {
  if (oidc === null) return Effect.succeed([])
  const address = publicUrl ?? `http://${host}:${port}`
  const detail = `with OpenID Connect at ${new URL(oidc.issuer).host}; the client's redirect URI must be ` +
    `${SignIn.callbackUrl(address, "oidc")}, and that after signing out ${SignIn.signedOutUrl(address)}`
  return Effect.map(signInAt(SignIn.problemOfOidc(oidc, address), detail), (finding) => [finding])
}

const signIn = ({ host, port, publicUrl, signIn }: Settings.Settings): Effect.Effect<Finding> => {
  const what = "sign-in"
  if (signIn === null) {
    return Effect.succeed({ what, state: "ok", detail: `not with GitHub: ${GitHub.signIn.clientId.name} is not set` })
  }
  const address = publicUrl ?? `http://${host}:${port}`
  return signInAt(
    SignIn.problemOfGitHub(signIn, address),
    `with GitHub at ${new URL(signIn.apiUrl).host}; the callback URL of its App must be ${SignIn.callbackUrl(address, "github")}`
  )
}

const signing = (settings: Settings.Settings): Effect.Effect<Finding> => {
  const what = "signed commits"
  return Effect.match(CommitSigning.find(settings), {
    onFailure: ({ message }): Finding => ({ what, state: "missing", detail: message }),
    onSuccess: (key): Finding =>
      key === null
        ? { what, state: "ok", detail: `no: ${Publishing.settings.signingKeyFile.name} is not set` }
        : { what, state: "ok", detail: `with ${key.kind} ${key.fingerprint}` }
  })
}

/**
 * All findings in the order of display. Before the first start, Postgres and a box are tried in a temporary folder, so that the check
 * makes no data.
 */
const examine = Effect.fn("Doctor.examine")(function*(given: Settings.Settings) {
  const { settings, tried } = yield* RunningServices.findToTry(given)
  const node: Finding = { what: "Node", state: "ok", detail: `${process.versions.node} on ${process.platform} ${process.arch}` }
  const found = yield* Effect.all(
    [ProxyFinding.find(destinationsOf(settings)), sourceHosts(settings), signIn(settings), oidc(settings), git, signing(settings),
      postgres(tried, settings.dataDir), disk(settings), checkpoints(settings), blobs(settings), secretsKey(settings), kubernetes(settings),
      isolation(tried), toolchains(settings), agents(settings), models(given)],
    { concurrency: "unbounded" }
  )
  return [node, ...found.flat()]
}, Effect.scoped)

export const doctor = Command.make("doctor", { json, url: Server.asksServer }, ({ json, url }) =>
  Effect.gen(function*() {
    const findings: ReadonlyArray<Finding> = yield* Server.askedOf(url, ask, Effect.flatMap(Settings.load, examine))
    yield* print(json, findings, () => columns(findings.map(({ detail, state, what }) => [MARKS[state], what, detail])))
    const missing = findings.filter(({ state }) => state === "missing").map(({ what }) => what)
    if (missing.length > 0) return yield* new NotReady({ missing })
  })).pipe(
    Command.withDescription(
      "Check what agents need on this machine: the proxy, git, Postgres, disk, isolation, their programs; " +
        "whether commits can be signed; and whether each source host accepts its credentials and people can sign in.\n\n" +
        "✓ works, ! is a warning, ✗ is an error: then the command exits with 1. " +
        "Makes a box and inspects it from inside; the service need not run. With --url a running service is asked for its isolation and " +
        "every obstacle of its models, over its API: the key needs the scope models."
    ),
    Command.withExamples([{ command: "slipway doctor", description: "A line for each, with the remedy if it is missing" }, {
      command: "slipway doctor --json",
      description: "For a script"
    }, {
      command: "slipway doctor --url https://slipway.example",
      description: "What that service lacks, by its own environment"
    }])
  )
