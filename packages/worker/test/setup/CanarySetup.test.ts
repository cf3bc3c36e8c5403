/**
 * A secret of a repository is kept as owners keep it, setups get it, use it, print it and fail with it, an agent looks around and all
 * is watched: the secret is nowhere but in the processes of setups. Everything is real; the partner's receiver is a server here.
 */
import { assert, it } from "@effect/vitest"
import * as AgentRuntimeProfiles from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Access } from "@slipway/domain/access/usecases/Access"
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import { CREDENTIALS } from "@slipway/domain/environment/rules/PrivatePaths"
import { Ids } from "@slipway/domain/ids/Ids"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import * as SetupCachesFolder from "@slipway/machine/setup-caches/SetupCachesFolder"
import * as WebhookReceiver from "@slipway/machine/testing/WebhookReceiver"
import * as WebhookSenderHttp from "@slipway/machine/webhooks/WebhookSenderHttp"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as CheckpointsPostgres from "@slipway/postgres/checkpoints/CheckpointsPostgres"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as LeasesPostgres from "@slipway/postgres/leases/LeasesPostgres"
import * as MaintenancePostgres from "@slipway/postgres/maintenance/MaintenancePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as PartnerStorePostgres from "@slipway/postgres/partner-store/PartnerStorePostgres"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import { SecretsKey } from "@slipway/postgres/secret-store/SecretsKey"
import * as SecretStorePostgres from "@slipway/postgres/secret-store/SecretStorePostgres"
import * as SetupsPostgres from "@slipway/postgres/setups/SetupsPostgres"
import * as WebhookStorePostgres from "@slipway/postgres/webhook-store/WebhookStorePostgres"
import * as WorkersPostgres from "@slipway/postgres/workers/WorkersPostgres"
import * as DeliverWebhooks from "@slipway/worker/jobs/DeliverWebhooks"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { DateTime, Effect, Layer, Logger, Option, Redacted, References, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { zstdDecompressSync } from "node:zlib"
import { principal } from "../Doubles.ts"

const SECRET = `npm_canary${randomBytes(12).toString("hex")}`

/** The part that is in any base64 text that holds the secret, at any offset. */
const inBase64 = [0, 1, 2].map((before) => Buffer.from(" ".repeat(before) + SECRET).toString("base64").slice(before === 0 ? 0 : 4, -4))
const inHex = Buffer.from(SECRET).toString("hex")
const forms = [SECRET, ...inBase64, inHex, inHex.toUpperCase(), inHex.replace(/../gu, "%$&")]
const isIn = (text: string) => forms.some((form) => text.includes(form))

/** Uses it as tools do, leaves it where they do, and shows it in every form. */
const USE = [
  "printf %s \"$NPM_TOKEN\" | sha256sum | cut -c1-64 > used.txt",
  "mkdir -p node_modules/a; echo built > node_modules/a/index.js",
  `for path in ${CREDENTIALS.join(" ")}; do mkdir -p "$(dirname ~/$path)"; echo "password=$NPM_TOKEN" > ~/$path; done; ls -A ~ > left.txt`,
  "echo \"using $NPM_TOKEN\"; printf %s $NPM_TOKEN | base64; printf %s $NPM_TOKEN | od -An -v -tx1 | tr -d ' \\n'",
  // A command line that only a setup has, long enough to be seen on a busy machine too: the shell that starts a command is gone at once.
  "sleep 3.25"
]
const LOOK = [
  "env > env.txt",
  "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' > processes.txt",
  "find \"$HOME\" \"$TMPDIR\" -type f -exec cat {} + > home.txt",
  "true"
].join("; ")

const environments: Readonly<Record<string, object>> = {
  "acme/site": { setup: USE, cache: ["node_modules"], secrets: ["NPM_TOKEN"], env: { CI: "true" } },
  "acme/broken": { setup: ["echo failed with $NPM_TOKEN in \"$NPM_TOKEN\"; exit 3"], secrets: ["NPM_TOKEN"], onFailure: "fail" },
  "acme/lacking": { setup: ["true"], secrets: ["NPM_TOKEN", "OTHER_TOKEN"] }
}

const filesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() ? [join(entry.parentPath, entry.name)] : []
  )
const lastDigest = 32

/** Command lines of all processes of the machine. */
const commandLines = () =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((pid) => {
    try {
      return [readFileSync(`/proc/${pid}/cmdline`, "latin1")]
    } catch {
      return []
    }
  })

it.live(
  "a repository's secret is in no environment, command line, file, log, event, body, checkpoint, cache or table",
  () =>
    Effect.gen(function*() {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-canary-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
      )
      for (const [repo, environment] of Object.entries(environments)) {
        const origin = join(folder, "origins", repo)
        mkdirSync(join(origin, ".slipway"), { recursive: true })
        writeFileSync(join(origin, ".slipway/environment.json"), JSON.stringify(environment))
        writeFileSync(join(origin, ".gitignore"), "node_modules\n")
        const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", origin, ...args], { stdio: "pipe" })
        git("init", "--quiet", "--initial-branch=main")
        git("add", ".")
        git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "First")
      }
      const receiver = yield* WebhookReceiver.start()
      const logs: Array<string> = []
      const seen = new Set<string>()
      const watching = setInterval(() => commandLines().forEach((line) => seen.add(line)), 25)
      yield* Effect.addFinalizer(() => Effect.sync(() => clearInterval(watching)))

      const live = Layer.mergeAll(Sandboxes.layer, Publishing.layer, Webhooks.layer).pipe(
        Layer.provideMerge(Access.layer),
        Layer.provideMerge(Layer.mergeAll(
          WorkingTreesGit.layer({ directory: join(folder, "trees") }).pipe(
            Layer.provideMerge(
              SandboxHostNone.layer({ directory: join(folder, "boxes"), workspaceOf: workspacesIn(join(folder, "trees")) })
            )
          ),
          AgentRuntimeProfiles.layer(),
          OutputRedactor.layer,
          WebhookSenderHttp.layer({ allowPrivate: true }),
          SetupCachesFolder.layer({ directory: join(folder, "caches"), maximumBytes: 2 ** 30 }),
          Layer.mock(SourceHost, {
            names: ["local"],
            nameOf: () => Effect.succeed("local"),
            refusal: () => Effect.succeed(null),
            repository: (fullName) => Effect.succeed({ fullName, defaultBranch: "main" }),
            remote: (fullName) => Effect.succeed({ url: join(folder, "origins", fullName), authorization: null })
          })
        )),
        Layer.provideMerge(
          Layer.mergeAll(
            SandboxStorePostgres.layer,
            LeasesPostgres.layer,
            MaintenancePostgres.layer,
            SetupsPostgres.layer,
            WorkersPostgres.layer,
            CheckpointsPostgres.layer,
            AccessStorePostgres.layer,
            PartnerStorePostgres.layer,
            Layer.mergeAll(SecretStorePostgres.layer, WebhookStorePostgres.layer).pipe(Layer.provide(SecretsKey.layerEphemeral))
          )
        ),
        Layer.provideMerge(Layer.merge(HintsPostgres.layer, IdsNode.layer)),
        Layer.provideMerge(TestPostgres.layer(Migrations.layer)),
        Layer.provideMerge(Layer.mergeAll(
          Logger.layer([Logger.map(Logger.formatJson, (line) => logs.push(line))]),
          Layer.succeed(References.MinimumLogLevel, "All")
        ))
      )

      yield* Effect.gen(function*() {
        // So that what is logged is heard, also where nothing else is worth a line.
        yield* Effect.logDebug("the canary listens")
        const sandboxes = yield* Sandboxes
        const store = yield* SandboxStore
        const secrets = yield* SecretStore
        const partners = yield* PartnerStore
        const sql = yield* SqlClient.SqlClient
        const { grant } = yield* (yield* Access).createGrant("test")
        const by = { ...principal, grantId: grant.id }
        for (const repo of Object.keys(environments)) {
          yield* secrets.set({ grantId: grant.id, repo, name: "NPM_TOKEN" }, Redacted.make(SECRET), yield* DateTime.now)
        }
        // So that the partner is told of each sandbox.
        const claimId = yield* (yield* Ids).uuid7
        yield* partners.createClaim({ claimId, grantId: grant.id, leadId: "lead", variant: "a", creditAmount: 5 })
        yield* partners.claim(claimId, { recipientId: by.userId, organizationId: by.organizationId })
        yield* (yield* Webhooks).register(grant.id, { url: `http://127.0.0.1:${receiver.port}/hook`, types: null })
        yield* DeliverWebhooks.start()
        yield* WorkerNode.start({ worker: "worker-1", machine: "machine-1", slots: 4, agents: 4, boots: 4 })

        const create = Effect.fnUntraced(function*(fullName: string) {
          const request = yield* Schema.decodeEffect(CreateSandbox)({ repos: [{ fullName }], prompt: `[[shell ${LOOK}]]` })
          return (yield* sandboxes.create(by, request, Option.none())).sandbox.id
        })
        const until = (id: Sandbox["id"], is: (sandbox: Sandbox) => boolean) =>
          sandboxes.get(by, id).pipe(Effect.delay("20 millis"), Effect.repeat({ until: is }))
        const first = yield* create("acme/site")
        const worked = yield* until(
          first,
          ({ status, turn }) => status === "failed" || turn?.state === "succeeded" || turn?.state === "failed"
        )
        assert.strictEqual(worked.turn?.state, "succeeded", `${worked.error} ${logs.slice(-5).join("\n")}`)
        const others = [yield* create("acme/site"), yield* create("acme/broken"), yield* create("acme/lacking")]
        const [cached, broken, lacking] = yield* Effect.forEach(
          others,
          (id) => until(id, ({ status, turn }) => status === "failed" || turn?.state === "succeeded")
        )
        yield* until(first, ({ checkpoint }) => checkpoint > 0)
        yield* Effect.sync(() => receiver.received.length).pipe(Effect.delay("20 millis"), Effect.repeat({ until: (count) => count >= 3 }))

        const ids = [first, ...others]
        const setups = yield* Effect.forEach(ids, (id) => Effect.flatMap(Setups, (setups) => setups.find(id)))
        const events = (yield* Effect.forEach(ids, (id) => store.log(id, 0, 1000))).flat().map(({ wire }) => wire)
        const checkpoint = yield* Stream.mkString(
          Stream.decodeText(Stream.unwrap(Effect.map(Checkpoints, (checkpoints) => checkpoints.get(first, 1))), { encoding: "latin1" })
        )
        const caches = filesBelow(join(folder, "caches")).map((file) =>
          zstdDecompressSync(readFileSync(file).subarray(0, -lastDigest)).toString("latin1")
        )
        const tables = yield* sql<{ readonly name: string }>`
        SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'slipway'`
        const rows = (yield* Effect.forEach(tables, ({ name }) => sql<{ readonly row: string }>`SELECT t::text AS row FROM ${sql(name)} t`))
          .flat().map(({ row }) => row)
        const everywhere = {
          commandLines: [...seen],
          files: filesBelow(folder).map((file) => `${file}\n${readFileSync(file, "latin1")}`),
          logs,
          events,
          setups: setups.map((record) => JSON.stringify(record)),
          answers: [worked, cached, broken, lacking].map((sandbox) => JSON.stringify(sandbox)),
          feed: (yield* partners.feed(grant.id, 0, 100)).map((event) => JSON.stringify(event)),
          bodies: receiver.received.map(({ body, headers }) => JSON.stringify(headers) + body.toString()),
          checkpoints: [checkpoint],
          caches,
          rows,
          metadata: (yield* secrets.list(grant.id, null)).map((one) => JSON.stringify(one))
        }
        for (const [where, texts] of Object.entries(everywhere)) {
          assert.isAbove(texts.length, 0, where)
          assert.deepStrictEqual(texts.filter(isIn).map((text) => text.slice(0, 200)), [], where)
        }

        // The search can find the secret: setup had it and used it, and the agent looked in the places where it would have been.
        const named = (name: string) => everywhere.files.filter((text) => text.split("\n", 1)[0]?.endsWith(`/${name}`)).join("\n")
        assert.include(named("used.txt"), createHash("sha256").update(SECRET).digest("hex"))
        assert.include(named("env.txt"), "CI=true")
        assert.include(named("left.txt"), ".bashrc\n")
        assert.include(named("processes.txt"), "offline/OfflineAgent.main")
        assert.isTrue([...seen].some((line) => line.split("\0").includes("3.25")))
        assert.include(setups[0]?.output, "using [redacted]")
        assert.deepStrictEqual(setups.map((record) => [record?.state, record?.cache]).slice(0, 2), [["succeeded", "miss"], ["succeeded",
          "hit"]])
        assert.isTrue(caches.some((text) => text.includes("built")))
        assert.match(broken?.error ?? "", /exit code 3\.[\s\S]*failed with \[redacted\] in \[redacted\]/u)
        assert.match(lacking?.error ?? "", /has no secret OTHER_TOKEN/u)
        assert.isTrue(everywhere.feed.some((event) => event.includes("task.started")))
      }).pipe(Effect.provide(live))
    }).pipe(Effect.scoped)
)
