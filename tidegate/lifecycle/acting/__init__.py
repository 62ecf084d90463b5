"""Acting: object tasks carried out, recorded, and repeated safely."""
