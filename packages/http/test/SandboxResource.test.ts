import { assert, it } from "@effect/vitest"
import { SandboxPage } from "@slipway/http/api/SandboxesApi"
import { Schema } from "effect"

const encode = Schema.encodeSync(SandboxPage)

it.prop("sandboxes as JSON.stringify writes them are those of the schema", [SandboxPage], ([page]) => {
  assert.strictEqual(JSON.stringify(page), JSON.stringify(encode(page)))
})
