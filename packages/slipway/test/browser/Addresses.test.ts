/** Every address of a page: axe finds nothing there, and nothing scrolls sideways. */
import { assert, layer } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { AutomationStore } from "@slipway/domain/automation/ports/AutomationStore"
import { Secrets } from "@slipway/domain/environment/usecases/Secrets"
import { Ids } from "@slipway/domain/ids/Ids"
import { McpServers } from "@slipway/domain/mcp/usecases/McpServers"
import { ModelProviders } from "@slipway/domain/models/usecases/ModelProviders"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import { FIRST_PROMPT } from "@slipway/pages/sandboxes/conversation/Items"
import type { PAGES } from "@slipway/pages/testing/Addresses"
import { DateTime, Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { mkdtempSync, writeFileSync } from "node:fs"
import os from "node:os"
import path from "node:path"
import type { Page } from "playwright-core"
import { Browser, faultsOf, linkFor, memberNamed, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const keyFile = path.join(mkdtempSync(path.join(os.tmpdir(), "slipway-addresses-")), "secrets.key")
writeFileSync(keyFile, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 })

/** Milliseconds: on a busy machine the script of the API's reference takes long to be packed. */
const PATIENCE = 170_000

/** The faults of the page at the address. */
const look = async (page: Page, pattern: string, address: string, status = 200) => {
  const answer = await page.goto(address, { timeout: PATIENCE })
  if (answer?.status() !== status) return [`${pattern} at ${address} answers ${answer?.status()}`]
  assert.match(await page.title(), /Slipway$/u, pattern)
  await page.getByRole("heading", { level: 1 }).first().waitFor({ timeout: PATIENCE })
  return await faultsOf(page, `${pattern} at ${address}`)
}

const REPO = "acme/shop"

/** Leaves a picture, a text and another file for people. */
const LEAVE = "cd \"$SLIPWAY_ARTIFACTS\" && printf 'one\\ntwo\\n' > notes.txt && printf '<svg/>' > drawing.svg && echo " +
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg== | base64 -d > shot.png"

/** A row of every list on the pages of settings. Each returns the parameter of its address. */
const settings = Effect.gen(function*() {
  const other = yield* memberNamed("other")
  const grants = yield* (yield* AccessStore).listGrants
  const grantId = grants.find(({ name }) => name === "default")?.id ?? ""
  const key = yield* (yield* Access).createKey({ grant: "default", label: "laptop", scopes: [], kind: "live" })
  const secret = { grantId, repo: REPO, name: "NPM_TOKEN" }
  yield* (yield* Secrets).set(secret, Redacted.make("a secret value"))
  yield* (yield* McpServers).set({ grantId, repo: REPO, name: "wiki" }, { url: "https://wiki.example.com/mcp" }, null)
  const webhook = yield* (yield* Webhooks).register(grantId, { url: "http://127.0.0.1:9/hook", types: null })
  const owner = yield* (yield* MemberStore).owner
  const automation = yield* (yield* Ids).uuid7
  yield* (yield* AutomationStore).create({
    id: automation,
    grantId,
    createdBy: owner.userId,
    test: false,
    createdAt: yield* DateTime.now,
    settings: {
      name: "Nightly",
      trigger: { type: "webhook" },
      repos: [{ fullName: REPO }],
      prompt: "Fix {{payload.title}}.",
      toolApprovalMode: "auto",
      maxRunning: 1,
      maxPerDay: 20
    }
  }, Redacted.make("whsec_bm90IHVzZWQ="))
  return { key: key.record.id, user: other.id, endpoint: webhook.endpoint.id, automation }
})

layer(Shop.layer([REPO], { SLIPWAY_SECRETS_KEY_FILE: keyFile, SLIPWAY_WEBHOOK_PRIVATE: "true" }), { excludeTestServices: true })(
  "every page",
  (it) => {
    it.effect(
      "that a stranger can read is accessible and fits its window, and the API's reference leads back",
      () =>
        Effect.gen(function*() {
          const { server, visit } = yield* Browser
          yield* visit(async (page) => {
            const found: Array<string> = []
            for (const address of ["/", "/sign-in", "/docs"]) found.push(...await look(page, address, address))
            assert.deepStrictEqual(found, [])
            await page.getByRole("link", { name: "Slipway", exact: true }).click()
            await page.waitForURL(`${server.url}/`)
          })
        }),
      5 * 60_000
    )

    it.effect("is accessible and fits its window", () =>
      Effect.gen(function*() {
        const { visit } = yield* Browser
        const { create, publish } = yield* Shop.api
        const { automation, endpoint, key, user } = yield* settings
        const link = yield* linkFor()
        const run = Effect.runPromiseWith(yield* Effect.context<ModelProviders>())
        yield* visit(async (page) => {
          await signIn(page, link)
          const id = await create(`[[write path=a.md content=one]][[shell ${LEAVE}]]`)
          const asking = await create("[[shell echo one]]", Shop.ASKS)
          const inquiring = await create("[[ask Which one? | first | second]]", Shop.ASKS)
          await Shop.loadsUntil(page, `/sandboxes/${id}`, "Checkpoint 1")
          await publish(id)
          await Shop.loadsUntil(page, `/sandboxes/${asking}`, "Needs your approval")
          await Shop.loadsUntil(page, `/sandboxes/${inquiring}`, "The agent asks")
          /** The address of the first link or form on a page with this part. Links to pull requests have an origin. */
          const addressOn = async (at: string, part: string) => {
            await page.goto(at)
            const found = page.locator(`main a[href*="${part}"], main form[action*="${part}"]`).first()
            const address = await found.getAttribute("href") ?? await found.getAttribute("action") ?? assert.fail(`${part} is not on ${at}`)
            const { pathname, search } = new URL(address, page.url())
            return pathname + search
          }
          await Shop.loadsUntil(page, "/pulls", "Try it")
          const pull = await addressOn("/pulls", "/local/")
          // After the sandboxes were created, which the offline agent works on.
          await run(Effect.flatMap(ModelProviders, ({ set }) =>
            set({ provider: "compatible", baseUrl: "http://127.0.0.1:9/v1", model: "qwen3", isDefault: false, key: "keep" })))
          const [one, hook] = [`/sandboxes/${id}`, `/webhooks/${endpoint}`]
          const of = `repo=${encodeURIComponent(REPO)}`
          /** Typed by the list of pages: a page without an address does not compile. */
          const table: Readonly<Record<(typeof PAGES)[number], ReadonlyArray<string>>> = {
            "/": ["/"],
            "/sign-in": ["/sign-in"],
            "/docs": ["/docs"],
            "/grant": ["/grant"],
            "/device": ["/device"],
            "/settings": ["/settings"],
            "/keys": ["/keys"],
            "/keys/:id/revoke": [`/keys/${key}/revoke`],
            "/members": ["/members"],
            "/members/remove": [`/members/remove?user=${user}`],
            "/audit": ["/audit"],
            "/usage": ["/usage"],
            "/secrets": ["/secrets"],
            "/secrets/remove": [`/secrets/remove?${of}&name=NPM_TOKEN`],
            "/mcp-servers": ["/mcp-servers"],
            "/mcp-servers/server": [`/mcp-servers/server?${of}&name=wiki`],
            "/mcp-servers/remove": [`/mcp-servers/remove?${of}&name=wiki`],
            "/models": ["/models"],
            "/models/remove": ["/models/remove?provider=compatible"],
            "/webhooks": ["/webhooks"],
            "/webhooks/:endpointId": [hook],
            "/webhooks/:endpointId/remove": [`${hook}/remove`],
            "/webhooks/:endpointId/rotate-secret": [`${hook}/rotate-secret`],
            "/automations": ["/automations"],
            "/automations/:automationId": [`/automations/${automation}`],
            "/automations/:automationId/remove": [`/automations/${automation}/remove`],
            "/automations/:automationId/rotate-secret": [`/automations/${automation}/rotate-secret`],
            "/repositories": ["/repositories", "/repositories?search=none"],
            "/repositories/remove": [`/repositories/remove?name=${encodeURIComponent(REPO)}`],
            "/repositories/settings": [`/repositories/settings?name=${encodeURIComponent(REPO)}`],
            "/new": ["/new"],
            "/pulls": ["/pulls"],
            "/local/:owner/:name/pulls/:number": [pull, `${pull}?layout=split`],
            "/local/:owner/:name/pulls/:number/merge": [await addressOn(pull, `${pull}/merge`)],
            "/sandboxes": ["/sandboxes", "/sandboxes?search=nothing"],
            "/sandboxes/terminate": [`/sandboxes/terminate?id=${id}`],
            "/sandboxes/archive": [`/sandboxes/archive?id=${id}`],
            "/sandboxes/unarchive": [`/sandboxes/unarchive?id=${id}`],
            "/sandboxes/delete": [`/sandboxes/delete?id=${id}`],
            "/sandboxes/:sandboxId": [
              one,
              ...["changes", "files", "pull", "artifacts", "checkpoints", "log"].map((view) =>
                `${one}?view=${view}`
              ),
              `/sandboxes/${asking}`
            ],
            "/sandboxes/:sandboxId/approvals/:approvalId": [
              await addressOn(`/sandboxes/${asking}`, `/sandboxes/${asking}/approvals/`)
            ],
            "/sandboxes/:sandboxId/questions/:questionId": [
              await addressOn(`/sandboxes/${inquiring}`, `/sandboxes/${inquiring}/questions/`)
            ],
            "/sandboxes/:sandboxId/artifacts": [`${one}/artifacts`, `${one}/artifacts?name=notes.txt`, `${one}/artifacts?name=shot.png`],
            "/sandboxes/:sandboxId/changes": [`${one}/changes`, `${one}/changes?layout=split`, `${one}/changes?path=a.md&line=1`],
            "/sandboxes/:sandboxId/files": [`${one}/files`, `${one}/files?path=a.md`, `${one}/files?search=one`, `${one}/files?find=a`],
            "/sandboxes/:sandboxId/fork": [`${one}/fork?checkpoint=1`],
            "/sandboxes/:sandboxId/read": [`${one}/read`],
            "/sandboxes/:sandboxId/terminal": [`${one}/terminal`],
            "/sandboxes/:sandboxId/restore": [`${one}/restore?checkpoint=1`],
            "/sandboxes/:sandboxId/preview": [`${one}/preview`],
            "/sandboxes/:sandboxId/send-back": [`${one}/send-back?${of}`],
            "/sandboxes/:sandboxId/terminate": [`${one}/terminate`],
            "/sandboxes/:sandboxId/text": [`${one}/text?item=${encodeURIComponent(FIRST_PROMPT)}`]
          }
          const found: Array<string> = []
          for (const [pattern, addresses] of Object.entries(table)) {
            for (const address of addresses) found.push(...await look(page, pattern, address))
          }
          found.push(...await look(page, "an unknown address", "/nothing-here", 404))
          found.push(...await look(page, "an address for forms", "/sign-out", 405))
          assert.deepStrictEqual(found, [])
        }, { refused: [404, 405] })
      }), 15 * 60_000)
  }
)
