/** Pages where the service does not have a host for itself. */

/** Attributes with an address of this service. Text within a page has its quotes escaped, so it cannot look like one. */
const OWN_ADDRESS = / (href|src|action|formaction|data-then|data-stream)="\/(?!\/)/gu

/** HTML of ours as it is at a host where the service lies beneath `base`: what it names from the root lies beneath that, too. */
export const beneath = (base: string, html: string): string =>
  base === "" ? html : html.replaceAll(OWN_ADDRESS, (_, name: string) => ` ${name}="${base}/`)

/** The same of the beginning of a document, or of a whole one: scripts find the path in it. */
export const page = (base: string, html: string): string =>
  base === "" ? html : beneath(base, html.replace("<html ", () => `<html data-base="${base}" `))
