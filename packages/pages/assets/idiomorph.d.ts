/** The part of idiomorph 0.7 that `morph.js` uses; the package has no types. */
declare module "idiomorph" {
  export const Idiomorph: {
    morph(old: Element, now: Element, options: {
      readonly morphStyle: "outerHTML" | "innerHTML"
      readonly restoreFocus: boolean
      readonly callbacks: {
        readonly beforeNodeMorphed?: (old: Node, now: Node) => boolean
        readonly beforeAttributeUpdated?: (name: string, element: Element, change: "update" | "remove") => boolean
      }
    }): void
  }
}
