"""burnish_cli"""
