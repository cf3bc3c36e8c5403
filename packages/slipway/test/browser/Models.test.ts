import { assert, layer } from "@effect/vitest"
import { ModelProviders } from "@slipway/domain/models/usecases/ModelProviders"
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import { mkdtempSync, writeFileSync } from "node:fs"
import os from "node:os"
import path from "node:path"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"

const CANARY = "sk-canary-of-a-page-7Qm2"

const keyFile = path.join(mkdtempSync(path.join(os.tmpdir(), "slipway-models-")), "secrets.key")
writeFileSync(keyFile, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 })

layer(Browser.layer({ SLIPWAY_SECRETS_KEY_FILE: keyFile, XAI_API_KEY: "xai-of-the-environment" }), { excludeTestServices: true })(
  "the page of models",
  (it) => {
    it.effect.each([true, false])(
      "connects a server of one's own, whose model is the default without a restart; scripts: %s",
      (javaScriptEnabled) =>
        Effect.gen(function*() {
          const { server, visit } = yield* Browser
          const providers = yield* ModelProviders
          yield* Effect.ignore(providers.remove("compatible"))
          const link = yield* linkFor()
          yield* visit(async (page) => {
            await signIn(page, link)
            await page.goto("/models")
            const local = page.getByRole("form", { name: "OpenAI-compatible server" })
            await page.getByText("Agents run as the service's user, without isolation (SLIPWAY_ISOLATION=none).").waitFor()
            await page.getByRole("form", { name: "xAI" }).getByText("The environment variable XAI_API_KEY is set.").waitFor()
            if (javaScriptEnabled) await inspect(page, "models-first")
            await local.getByLabel("Address").fill("http://127.0.0.1:9/v1")
            await local.getByLabel("Model", { exact: true }).fill("qwen3")
            await local.getByLabel("Key").fill(CANARY)
            await local.getByRole("button", { name: "Save" }).click()
            await page.getByText("Saved. New sandboxes use it within seconds.").waitFor()
            assert.strictEqual(await local.getByLabel("Key").inputValue(), "")
            assert.notInclude(await page.content(), "7Qm2")
            await page.getByRole("rowheader", { name: "compatible/qwen3 (default)" }).waitFor()
            if (javaScriptEnabled) await inspect(page, "models")
            await local.getByRole("link", { name: "Remove" }).click()
            await page.getByRole("button", { name: "Remove provider" }).click()
            await page.getByText("Provider removed. Its key was deleted.").waitFor()
          }, { options: { javaScriptEnabled } })
          assert.deepStrictEqual(yield* providers.list, [])
          assert.notInclude(server.output(), "7Qm2")
        })
    )
  }
)
