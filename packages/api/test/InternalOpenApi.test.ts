/** The document of the API that operators' own programs call. */
import { assert, expect, it } from "@effect/vitest"
import { InternalApi } from "@slipway/api/InternalApi"
import { OpenApi } from "effect/http-api"

const document = JSON.parse(JSON.stringify(OpenApi.fromApi(InternalApi)))

it("its document is the committed one; `vitest -u` writes it anew", async () => {
  await expect(`${JSON.stringify(document, null, 2)}\n`).toMatchFileSnapshot("../openapi-internal.json")
})

it("its document names every status, and describes every parameter", () => {
  const everywhere = ["400", "401", "403", "405", "429", "500", "503"]
  const withBody = [...everywhere, "413", "415"]
  const told = [...withBody, "200", "201", "409"]
  const operations: ReadonlyArray<any> = Object.values<any>(document.paths).flatMap((item) => Object.values<any>(item))
  assert.deepStrictEqual(Object.fromEntries(operations.map(({ operationId, responses }) => [operationId, Object.keys(responses).sort()])), {
    createClaim: [...told, "404"].sort(),
    claimCredits: [...told, "404"].sort(),
    connectProject: told.toSorted(),
    payInvoice: told.toSorted(),
    exportAudit: [...everywhere, "200"].sort(),
    registerWebhook: [...withBody, "201", "409"].sort(),
    listWebhooks: [...everywhere, "200"].sort(),
    getWebhook: [...everywhere, "200", "404"].sort(),
    deleteWebhook: [...everywhere, "204", "404"].sort(),
    rotateWebhookSecret: [...withBody, "200", "404"].sort(),
    enableWebhook: [...withBody, "200", "404"].sort(),
    listWebhookDeliveries: [...everywhere, "200", "404"].sort(),
    redeliverWebhook: [...withBody, "202", "404"].sort(),
    listTrustedRefs: [...everywhere, "200"].sort(),
    trustRef: [...withBody, "201", "404", "409"].sort(),
    distrustRef: [...everywhere, "204", "404"].sort(),
    listRepositorySettings: [...everywhere, "200"].sort(),
    setRepositorySettings: [...withBody, "200", "404", "409"].sort(),
    listMcpServers: [...everywhere, "200"].sort(),
    setMcpServer: [...withBody, "200", "404", "409"].sort(),
    removeMcpServer: [...everywhere, "204", "404"].sort(),
    listModels: [...everywhere, "200"].sort(),
    listModelProviders: [...everywhere, "200"].sort(),
    setModelProvider: [...withBody, "200"].sort(),
    removeModelProvider: [...everywhere, "204", "404"].sort(),
    createAutomation: [...withBody, "201", "409"].sort(),
    listAutomations: [...everywhere, "200"].sort(),
    getAutomation: [...everywhere, "200", "404"].sort(),
    changeAutomation: [...withBody, "200", "404"].sort(),
    deleteAutomation: [...everywhere, "204", "404"].sort(),
    rotateAutomationSecret: [...withBody, "200", "404"].sort(),
    enableAutomation: [...withBody, "200", "404"].sort(),
    pauseAutomation: [...withBody, "200", "404"].sort(),
    runAutomation: [...withBody, "200", "404", "409"].sort(),
    listAutomationRuns: [...everywhere, "200", "404"].sort(),
    archivedSandboxes: [...everywhere, "200"].sort(),
    deleteSandbox: [...everywhere, "204", "404", "409"].sort(),
    archiveSandbox: [...withBody, "204", "404"].sort(),
    unarchiveSandbox: [...withBody, "204", "404"].sort(),
    getPullRequestReviews: [...everywhere, "200", "404"].sort()
  })
  for (const { description, parameters } of operations) {
    assert.isNotEmpty(description)
    for (const parameter of parameters) assert.isNotEmpty(parameter.description, parameter.name)
  }
})
