"""burnish_bootstrap"""
