"""burnish_llamacpp"""
