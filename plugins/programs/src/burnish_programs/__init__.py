"""burnish_programs"""
