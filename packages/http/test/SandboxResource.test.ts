import { assert, it } from "@effect/vitest"
import { Schema } from "effect"
import { SandboxPage } from "@slipway/http/api/SandboxesApi"

const encode = Schema.encodeSync(SandboxPage)

it.prop("sandboxes as JSON.stringify writes them are those of the schema", [SandboxPage], ([page]) => {
  assert.strictEqual(JSON.stringify(page), JSON.stringify(encode(page)))
})
